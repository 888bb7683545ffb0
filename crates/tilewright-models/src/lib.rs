//! Front ends: model files and model definitions.

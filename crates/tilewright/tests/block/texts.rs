//! The text form.

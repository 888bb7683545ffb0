//! Execution on the cores of a machine.

//! The command line: usage, errors and exit codes, output, `demo`, signals.

mod demo;
mod errors;
mod find;
mod kubectl;
mod shutdown;

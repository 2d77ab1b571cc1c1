//! The command line: usage, errors and exit codes, output, `demo`, signals.

mod demo;
mod errors;
mod help;
mod reports;
mod shutdown;

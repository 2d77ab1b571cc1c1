//! The command line: usage, errors and exit codes, what is printed, `demo`, signals.

mod demo;
mod errors;
mod reports;
mod shutdown;

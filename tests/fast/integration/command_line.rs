//! The command line: usage, errors and exit codes, output, `demo`, signals.

mod demo;
mod errors;
mod events;
mod find;
mod kubectl;
mod names;
mod plug_in;
mod reports;
mod select;
mod shutdown;

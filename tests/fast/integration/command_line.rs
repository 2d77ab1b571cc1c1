//! The command line: usage, errors and exit codes, output, `demo`, signals.

mod api_server;
mod demo;
mod errors;
mod events;
mod find;
mod help;
mod mistakes;
mod names;
mod plug_in;
mod reports;
mod select;
mod shutdown;

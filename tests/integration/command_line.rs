//! The command line: usage, errors and exit codes, output, `demo`, signals.

mod api_server;
mod corefile;
mod demo;
mod errors;
mod help;
mod mistakes;
mod reports;
mod shutdown;

//! Tests that need only Rust. `cargo test` runs them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests, also with enums of other crates"
)]

mod commands; // commands with their output, as cases in files
mod conformance; // the requirements of RFCs, section by section
mod first_look; // faults with the words that a person on call reads
mod fuzz; // the corpora of the fuzz targets; models of the rules; every view against the replies
mod integration; // several modules together: sockets, the program, zone files, the boundaries of modules
mod manual; // the page and the schema of the settings
mod recordings; // recorded watch events of the real mirror controller, replayed one by one

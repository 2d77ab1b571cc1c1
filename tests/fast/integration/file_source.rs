//! `--file`: input forms, errors at start and at run time, and reloads.

mod errors;
mod examples;
mod forms;
mod reload;

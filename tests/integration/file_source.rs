//! `--file`: the forms of input, what is an error at start, and what happens when the files change.

mod examples;
mod forms;
mod mishaps;
mod reload;

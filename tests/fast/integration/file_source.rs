//! `--file`: errors at start and at run time, reloads, and the examples of Linkerd.

mod errors;
mod examples;
mod reload;

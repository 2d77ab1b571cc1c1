//! Queries for existing and similar names → replies.
#![no_main]

libfuzzer_sys::fuzz_target!(
    |choices: &[u8]| checks::messages::check(&checks::messages::question(choices))
);

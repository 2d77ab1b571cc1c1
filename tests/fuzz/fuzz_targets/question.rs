//! Questions with names that exist or nearly do → what is sent back.
#![no_main]

#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|choices: &[u8]| checks::check(&checks::question(choices)));

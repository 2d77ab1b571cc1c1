//! Questions with names that exist or nearly do → what is sent back.
#![no_main]

libfuzzer_sys::fuzz_target!(
    |choices: &[u8]| checks::messages::check(&checks::messages::question(choices))
);

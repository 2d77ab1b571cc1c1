//! Objects that are created, changed and deleted → store → tables → answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::cluster::check(choices);
});

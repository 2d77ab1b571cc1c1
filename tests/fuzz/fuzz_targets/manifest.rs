//! Files composed of fragments → lists → a table, or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::manifest::check(choices);
});

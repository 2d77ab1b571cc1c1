//! Any octets as a file → lists → a table, or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    checks::manifest::check(octets);
});

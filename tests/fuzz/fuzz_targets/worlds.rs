//! Events of objects of all kinds of services in any interleaving → the table after each event.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::worlds::check(choices);
});

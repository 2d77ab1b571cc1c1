//! Objects that come, change and go → inputs → tables → answers.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::world::check(choices);
});

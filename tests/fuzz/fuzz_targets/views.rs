//! Events of objects, some of them forged or invalid → every document of the API, and the metrics.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::views::check(choices);
});

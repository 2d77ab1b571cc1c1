//! The head of an HTTP request → the DNS message in it, or a status code.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::requests::check(choices);
});

//! The head of an HTTP request → the message that it asks for, or a status code.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::requests::check(choices);
});

//! A stream over TCP, however it is cut → the stream that is sent back.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::framing::check(choices);
});

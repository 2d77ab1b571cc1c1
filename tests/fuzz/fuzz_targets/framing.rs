//! A TCP stream in pieces of any size → the stream of replies.
#![no_main]

libfuzzer_sys::fuzz_target!(|choices: &[u8]| {
    checks::framing::check(choices);
});

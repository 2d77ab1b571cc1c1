//! Any bytes → what is sent back, over UDP and TCP.
#![no_main]

#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|packet: &[u8]| checks::check(packet));

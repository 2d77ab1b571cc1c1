//! Any octets as a query → replies over UDP and TCP.
#![no_main]

libfuzzer_sys::fuzz_target!(|packet: &[u8]| checks::messages::check(packet));

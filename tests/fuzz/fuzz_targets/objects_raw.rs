//! Any octets as a Kubernetes object → the parsed object, or a skip reason.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    checks::raw::check(octets);
});

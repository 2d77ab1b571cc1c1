//! Any octets in the place of a Kubernetes object → what is kept of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    checks::raw::check(octets);
});

//! Rounds of generated tests.

use std::env;

/// Returns the number of rounds of a generated test: all of them if the variable `GLOBAL_DNS_TEST_ROUNDS` is `all`, as in
/// CI, otherwise a tenth.
pub fn rounds(all: u16) -> u16 {
    match env::var("GLOBAL_DNS_TEST_ROUNDS").as_deref() {
        Ok("all") => all,
        _ => all.div_ceil(10),
    }
}

//! Rounds of generated tests.

use std::env;

/// Returns the number of rounds of a generated test: all of them if the variable `GLOBAL_DNS_TEST_ROUNDS` is `all`, as in
/// CI, otherwise a tenth.
pub fn rounds(all: u16) -> u16 {
    if has_all_rounds() {
        all
    } else {
        all.div_ceil(10)
    }
}

/// Returns whether generated tests run all of their rounds.
pub fn has_all_rounds() -> bool {
    env::var("GLOBAL_DNS_TEST_ROUNDS").as_deref() == Ok("all")
}

//! Faults and floods, and their effect on an honest client. `tests/system/chaos/run` runs these tests; `tests/run` does not.
//!
//! Index:
//!
//! - `floods`: floods and slow peers, with an honest client in parallel
//! - `readers`: readers of the API of a very large table, and the delays of probes and answers

mod floods;
mod readers;

//! Watch events of the real mirror controller, replayed event by event. See `tests/fixtures/recordings/README.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod interleavings; // any order of events that keeps each object's own per watch ends in the same table
mod invariants; // what holds after every single event of every recording
mod moments; // what each recording answers, by the table that the end-to-end tests read, too
mod replay; // a recording, and the model that it is replayed into

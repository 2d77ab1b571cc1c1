//! Replays recorded watch events of the real mirror controller. `tests/fixtures/recordings/README.md` describes them.

mod expectations; // the answers of each recording, compared with the table that the end-to-end tests also use
mod failover; // failover orders during recordings
mod interleavings; // reordered events result in the same table if each watch keeps the order of each object
mod invariants; // conditions that hold after every event of every recording
mod k7; // the sequences of the steps of failover orders that the program of rule K7 wrote
mod links; // Links and Leases while mirror controllers stop and a Link is deleted
mod replay; // a recording and the model of the server that replays it

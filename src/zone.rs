//! The steps from an owner name to records: the grammar of names, the choice of the answer, and the list of records.
//!
//! ```text
//! name → read → Reading → answer → Answer → visit_records → Record
//! ```
//!
//! [`read()`] is the only implementation of the grammar. [`answer()`] and the view `explain` both use it,
//! so an explanation always matches the answer. This module is pure: it has no clock, no I/O, no lock, and no log.
//!
//! # Rules of names
//!
//! `Z` is a zone, `N` a namespace, `S` a service, `C` a cluster, `H` a hostname, `P` the name of a port and `R` its
//! protocol.
//!
//! | name | A, AAAA | SRV | tested in |
//! |---|---|---|---|
//! | `S.N.Z` | all endpoints | one for each endpoint and port | `tests/support/names.txt` |
//! | `C.S.N.Z` | the endpoints of one cluster | one for each of these endpoints and ports | `tests/support/names.txt` |
//! | `H.C.S.N.Z` | one endpoint | one for each of its ports | `tests/support/names.txt` |
//! | `_P._R.` before any of these | none | one for each endpoint with the port | `tests/support/names.txt` |
//! | `S.Z`, `C.S.Z`, `H.C.S.Z`, `_P._R.S.Z` | the same, for the namespace that `S` stands for | the same, with short names as targets | `tests/support/names.txt`, `src/zone/tests/edges.rs` |
//! | `Z` | SOA, NS; DS belongs to the zone above | | `tests/support/names.txt`, `tests/fast/conformance/zones.rs` |
//! | `ns.dns.Z` | the addresses of this server | | `tests/support/names.txt` |
//! | `dns-version.Z` | TXT | | `tests/support/names.txt` |
//!
//! Conformance, peer and end-to-end tests ask for the names in `tests/support/names.txt`.
//!
//! A zone with the grammar `mcs` has the names of KEP-1645 instead (rule K9, `tests/fast/conformance/kep1645.rs`):
//!
//! | name | A, AAAA | SRV |
//! |---|---|---|
//! | `S.N.svc.Z` | all endpoints | one for each endpoint with a hostname and port; one for each port of cluster IPs, with target `S.N.svc.Z` |
//! | `H.C.S.N.svc.Z` | one endpoint | one for each of its ports |
//! | `_P._R.S.N.svc.Z` | none | as `S.N.svc.Z`, for the port |
//! | `C.S.N.svc.Z` | none | none: it is empty if there are endpoints with a hostname, and NXDOMAIN otherwise |
//!
//! A zone of one cluster has Kubernetes' own names of what is mirrored from it (rule K10, `tests/fast/conformance/zones.rs`):
//!
//! | name | A, AAAA, SRV |
//! |---|---|
//! | `S.N.Z`, `H.S.N.Z` and their `_P._R.` forms | as `C.S.N.Z` and `H.C.S.N.Z` in other zones, with such names as targets |
//!
//! - A name exists if it owns a record, or if an existing name is below it (RFC 8020). Every other name is NXDOMAIN
//!   (`tests/support/names.txt`, `src/zone/tests.rs`).
//! - A canonical name with records hides a short name, and the conflict is reported (`src/zone/tests.rs`). An empty
//!   non-terminal, such as `N.Z`, hides no short name (`src/zone/tests/edges.rs`).
//! - A short name belongs to one namespace: that of `shortNames.pinned`, and to none if that namespace lacks the service;
//!   without `shortNames.pinned`, to that of `shortNames.defaultNamespace`, if it has the service; otherwise to the only namespace that
//!   has a headless service of that name. If several have one, the short name is NXDOMAIN (`src/table/build/tests.rs`,
//!   `src/zone/tests/kinds.rs`). Earlier states do not matter, so replicas give the same answers (`src/table/tests.rs`).
//! - The names of the zone itself have no ports: `_P._R.` before `ns.dns.Z` and `dns-version.Z` does not exist
//!   (`src/zone/tests/edges.rs`).
//! - If a zone is below another one, its names hide those of the other zone (`tests/fast/conformance/zones.rs`).
//! - The target of an SRV record always resolves (`tests/fast/recordings/invariants.rs`, `tests/system/peers/clients.rs`), and never
//!   to an address of another service (`src/zone/tests/namespaces.rs`). The additional section has all addresses of a
//!   target or none (`src/zone/tests/kinds.rs`).
//! - The label of an endpoint without a hostname is its address: `10-1-2-3` (`src/model/label.rs`).
//! - The set of records is always complete. Only their order changes from answer to answer
//!   (`src/wire/write/tests.rs`, `src/zone/tests/order.rs`).

pub mod answer;
pub mod name;
pub mod print;
pub mod read;
pub mod reading;
mod record_type;
pub mod records;
pub mod walk;
mod zones;

pub use answer::{Answer, AnswerResult, answer};
pub use name::Name;
pub use read::{read, yields};
pub use reading::{Failure, MissingReason, Reading, Scope, View};
pub use record_type::RecordType;
pub use records::{AnswerContext, Data, MessageSection, Record, RecordName, SRV_WEIGHT};
pub use walk::{Addresses, AnswerOrder, Walk};
pub use zones::{Grammar, Zone, ZoneName, Zones};

#[cfg(test)]
mod tests;

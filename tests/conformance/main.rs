//! The standards, on the wire: questions and expected answers, section by section, over UDP, TCP, TLS, HTTPS and QUIC.
//!
//! Tables are written as in a zone file, for readers who know DNS. What the server serves, and which names it has
//! by that, is in `support::names`; what the marks of a question mean is in `support::query`. Every reply is read by code
//! of our own and by hickory-proto; an ignored test runs the suite once more with dnspython beside them.
//!
//! Index:
//!
//! - `rfc1034_1035`: DNS itself: answers, the apex, header, question, classes, message size
//! - `rfc2181`: the source address of replies; RRsets, their TTLs, truncation, octets in labels
//! - `rfc2308`: negative answers
//! - `rfc2782`: SRV
//! - `rfc3225_6891`: EDNS, the DO bit, sizes
//! - `rfc3597`: unknown types
//! - `rfc4343`: upper and lower case
//! - `rfc5001`: which server is this (NSID); also RFC 4892 (`version.bind`, `id.server`)
//! - `rfc5936_1995_1996_2136`: transfers, notifications and updates, none of which are offered
//! - `rfc7766`: TCP
//! - `rfc7828`: edns-tcp-keepalive
//! - `rfc7830_8467`: padding
//! - `rfc7858`: TLS
//! - `rfc7873_9018`: cookies
//! - `rfc8484`: HTTPS
//! - `rfc8906`: every query of the compliance test
//! - `rfc8914`: extended errors
//! - `rfc9250`: QUIC
//! - `rfc9619`: one question
//! - `kubernetes_dns`: DNS-based service discovery in Kubernetes, version 1.1.0
//! - `owner_names`: every name of the table that all layers read; also RFC 8020 (what exists), RFC 8482 (ANY) and RFC 9460 (SVCB and HTTPS)
//! - `zones`: several zones, also RFC 8020
//! - `cases`: tables of question and expected answer; `servers`: whom they are put to; `second_decoder`: dnspython

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod cases;
mod kubernetes_dns;
mod owner_names;
mod rfc1034_1035;
mod rfc2181;
mod rfc2308;
mod rfc2782;
mod rfc3225_6891;
mod rfc3597;
mod rfc4343;
mod rfc5001;
mod rfc5936_1995_1996_2136;
mod rfc7766;
mod rfc7828;
mod rfc7830_8467;
mod rfc7858;
mod rfc7873_9018;
mod rfc8484;
mod rfc8906;
mod rfc8914;
mod rfc9250;
mod rfc9619;
mod second_decoder;
mod servers;
mod zones;

//! The standards, on the wire: questions and expected answers, section by section, over UDP, TCP, TLS, HTTPS and QUIC.
//!
//! Tables are written as in a zone file, for readers who know DNS. What the server serves is in `sample.yaml`; what the
//! marks of a question mean is in `support/question.rs`. Every reply is decoded by hickory-proto; an
//! ignored test runs the suite once more with dnspython as a second decoder.
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
//! - `rfc8020`: there is nothing below a name that does not exist
//! - `rfc8482`: ANY
//! - `rfc8484`: HTTPS
//! - `rfc8906`: every query of the compliance test
//! - `rfc8914`: extended errors
//! - `rfc9250`: QUIC
//! - `rfc9460`: SVCB and HTTPS
//! - `rfc9619`: one question
//! - `kubernetes_dns`: DNS-based service discovery in Kubernetes, version 1.1.0
//! - `support`: the binary as a child process, questions, replies, tables of cases

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

mod kubernetes_dns;
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
mod rfc8020;
mod rfc8482;
mod rfc8484;
mod rfc8906;
mod rfc8914;
mod rfc9250;
mod rfc9460;
mod rfc9619;
mod support;

//! Conformance tests: queries and expected replies, RFC section by RFC section, over UDP, TCP, TLS and QUIC.
//!
//! Expected records use zone file syntax. `support::names` holds the sample objects and the names that they produce.
//! `support::query` documents the syntax of queries. Two decoders read every reply: that of `support::reply`, and
//! hickory-proto.
//!
//! Index:
//!
//! - `rfc1034_1035`: the DNS protocol: header, question, classes, message size
//! - `rfc2181`: source address of replies, TTLs of RRsets, truncation, octets in labels
//! - `rfc2308`: negative answers
//! - `rfc2782`: SRV
//! - `rfc3225_6891`: EDNS, the DO bit, message sizes
//! - `rfc4343`: case insensitivity
//! - `rfc5001`: server identification (NSID); also RFC 4892 (`id.server`)
//! - `rfc5936_1995_1996_2136`: zone transfers, NOTIFY and UPDATE, which are not supported
//! - `rfc7766`: TCP
//! - `rfc7828`: edns-tcp-keepalive
//! - `rfc7830_8467`: padding
//! - `rfc7858`: TLS
//! - `rfc8906`: every query of the RFC's compliance test, and every type (RFC 3597, RFC 6895)
//! - `rfc8914`: extended DNS errors
//! - `rfc9250`: QUIC
//! - `rfc9619`: one question per query
//! - `kubernetes_dns`: DNS-based service discovery in Kubernetes, version 1.1.0
//! - `kep1645`: DNS of the Multi-Cluster Services API, version 1.0.0
//! - `owner_names`: every name of the table in `support`; also RFC 8020 (existence), RFC 8482 (ANY) and RFC 9460 (SVCB
//!   and HTTPS)
//! - `zones`: several zones; also RFC 8020
//! - `cases`: queries and expected replies; `servers`: the servers under test

mod cases;
mod kep1645;
mod kubernetes_dns;
mod owner_names;
mod rfc1034_1035;
mod rfc2181;
mod rfc2308;
mod rfc2782;
mod rfc3225_6891;
mod rfc4343;
mod rfc5001;
mod rfc5936_1995_1996_2136;
mod rfc7766;
mod rfc7828;
mod rfc7830_8467;
mod rfc7858;
mod rfc8906;
mod rfc8914;
mod rfc9250;
mod rfc9619;
mod servers;
mod zones;

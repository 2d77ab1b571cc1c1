//! What every module here needs: the binary as a child process, questions written as people write them, replies decoded
//! by one or two independent decoders, tables of cases.

mod case;
mod encrypted;
mod question;
pub mod reply;
mod second_decoder;
mod server;

// Shared with other suites.
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/environment.rs"]
mod environment;
#[path = "../support/http.rs"]
mod http;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/https.rs"]
pub mod https;
#[path = "../support/local_objects.rs"]
mod local_objects;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/quic.rs"]
pub mod quic;
#[path = "../support/running.rs"]
mod running;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/tls.rs"]
pub mod tls;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/wire.rs"]
mod wire;

pub use case::{
    SOA, answer, badvers, case, check, dropped, empty, formerr, nodata, notimp, nxdomain, raw,
    refused, servfail,
};
pub use encrypted::{Encrypted, encrypted, encrypted_nothing_yet, encrypted_objects};
pub use local_objects::{LocalService, endpoint};
pub use question::{Packet, octets, query, wire_name};
pub use reply::{Message, decode};
pub use server::{
    frame, is_end, members, receive, sample, serve, serve_nothing_yet, serve_objects,
};
pub use wait::PATIENCE;
pub use wire::Over;

//! What every module here needs: the binary as a child process, questions written as people write them, replies decoded
//! by one or two independent decoders, tables of cases.

mod case;
mod question;
mod reply;
mod second_decoder;
mod server;

// Shared with other suites.
#[path = "../support/command.rs"]
mod command;
#[path = "../support/environment.rs"]
mod environment;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/local_objects.rs"]
mod local_objects;
#[path = "../support/running.rs"]
mod running;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/wire.rs"]
mod wire;

pub use case::{
    SOA, answer, badvers, case, check, dropped, empty, formerr, nodata, notimp, nxdomain, raw,
    refused, servfail,
};
pub use local_objects::{LocalService, endpoint};
pub use question::{Packet, octets, query, wire_name};
pub use reply::decode;
pub use server::{
    frame, is_end, members, receive, sample, serve, serve_nothing_yet, serve_objects,
};
pub use wait::PATIENCE;
pub use wire::Over;

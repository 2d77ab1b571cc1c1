//! What every module here needs: the binary as a child process, questions written as people write them, replies decoded
//! by two independent stacks, tables of cases.

mod case;
mod other_eyes;
mod question;
mod reply;
mod server;

pub use case::{
    SOA, answer, badvers, case, check, dropped, empty, formerr, nodata, notimp, nxdomain, raw,
    refused, servfail,
};
pub use question::{Packet, octets, query, wire_name};
pub use reply::decode;
pub use server::{
    Over, PATIENCE, frame, is_end, members, receive, sample, serve, serve_nothing_yet,
    serve_objects,
};

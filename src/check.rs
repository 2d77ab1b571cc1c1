//! `global-dns check` and `global-dns fleet`: what is wrong with an installation, and how clusters differ.
//!
//! They take what servers say (objects of their API, as maps), which `app` gathers, objects of the API server, and replies of name
//! servers. A field that is missing is not told by that version of the server, and a kind of problem that this program does not know
//! is printed like any other. Only [`cluster`], [`path`], [`dns_client`] and [`connection`] use the network; all else is pure.
//!
//! Failing: answers are wrong or missing until somebody acts. Attention: something deserves a look. A server's own problems come
//! first; nothing that a server knows is computed again.

pub mod cluster;
pub mod connection;
pub mod dns_client;
pub mod facts;
pub mod finding;
pub mod fleet;
pub mod objects;
pub mod path;
pub mod probe;

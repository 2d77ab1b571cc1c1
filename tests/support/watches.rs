//! The watches of the server.

/// The names of all watches, as in `/readyz`, logs and metrics. A new watch is added here only.
pub const WATCHES: &[&str] = &["Services", "EndpointSlices"];

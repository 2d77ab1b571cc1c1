//! The watches of the server.

/// The names of all watches, as in `/readyz`, logs and metrics. A new watch is added here only.
pub const WATCHES: &[&str] = &[
    "mirror-services",
    "local-services",
    "mirror-slices",
    "local-slices",
    "foreign-slices",
    "exported-services",
    "exported-slices",
    "policy-services",
];

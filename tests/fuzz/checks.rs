//! What holds whatever is sent, mirrored or written by anybody: the checks behind the fuzz targets.
//!
//! | targets | from | to |
//! |---|---|---|
//! | `reply`, `question` | [`messages`]: octets, or a question that nearly makes sense | replies over every transport |
//! | `framing` | [`framing`]: a stream of TCP or TLS, however it is cut | the stream that is sent back |
//! | `request` | [`requests`]: the head of an HTTP request | the message that it asks for, or a status code |
//! | `objects` | [`world`]: what a cluster holds, made by [`objects`] | inputs, [`tables`], [`answers`] |
//! | `objects_raw` | [`raw`]: any text as an object | what is kept of it, or a reason |
//! | `manifest`, `manifest_raw` | [`manifest`]: a file | inputs, or an error |

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    unreachable_pub,
    missing_docs,
    reason = "tests, also of enums that are not ours"
)]

#[path = "checks/answers.rs"]
pub mod answers;
#[path = "checks/choices.rs"]
pub mod choices;
#[path = "checks/foreign.rs"]
pub mod foreign;
#[path = "checks/framing.rs"]
pub mod framing;
#[path = "checks/manifest.rs"]
pub mod manifest;
#[path = "checks/memory.rs"]
pub mod memory;
#[path = "checks/messages.rs"]
pub mod messages;
#[path = "checks/objects.rs"]
pub mod objects;
#[path = "checks/raw.rs"]
pub mod raw;
#[path = "checks/requests.rs"]
pub mod requests;
#[path = "checks/tables.rs"]
pub mod tables;
#[path = "checks/world.rs"]
pub mod world;

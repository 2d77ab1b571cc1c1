//! The manual, which is an mdBook, and the links of all documents of this repository.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod book; // the built pages: no warning, and no dead link
mod links; // links between documents, and names of chapters in other files
mod markdown; // links and anchors of a Markdown document

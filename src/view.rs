//! What a server shows, as documents: sections of rows, with cells for people and objects for programs.
//!
//! The server computes, and the commands print: each view is one function that makes a [`Document`], and every document is
//! printed by one printer (`cli/print.rs`).

pub mod document;

pub use document::{Column, ColumnKind, Document, Items, Row, Section};

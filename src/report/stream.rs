//! The report on the table as a JSON document that is written one service after the other. It needs memory for one service,
//! not for the document.

use std::io;

use super::lazy::Lazy;
use super::{Parts, Report};
use crate::model::{Problem, Timestamp};
use crate::table::Published;
use crate::zone::Zones;

/// Writes the report on the published table, or on that of a time: the JSON document of [`Report::new`]. `of_server` are the
/// problems of the server, which the table does not know.
///
/// # Errors
///
/// If writing fails.
pub fn write_report(
    out: impl io::Write,
    zones: &Zones,
    published: &Published,
    at: Option<Timestamp>,
    of_server: &[Problem],
) -> io::Result<()> {
    let parts = Parts::of(published, of_server);
    let lists = (
        Lazy(parts.services()),
        Lazy(parts.skipped()),
        Lazy(parts.conflicts()),
        Lazy(parts.problems()),
    );
    let report = Report {
        at: at.map(Timestamp::to_exact_text),
        ..Report::with_lists(zones, published, lists)
    };
    Ok(serde_json::to_writer(out, &report)?)
}

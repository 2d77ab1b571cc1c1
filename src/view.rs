//! What a server shows, as documents: sections of rows, with cells for people and objects for programs.
//!
//! The server computes, and the commands print. Each [`ViewKind`] is one function that makes a [`Document`] of what a [`Filter`]
//! selects. Every list is paged, so a request costs its page. All documents have one printer (`cli/print.rs`).

mod age;
mod causes;
mod cluster;
mod document;
mod endpoint;
mod endpoints;
mod error;
mod events;
mod explain;
mod facts;
mod filter;
mod gone;
mod kind;
mod manual;
mod past;
mod problems;
mod server;
mod state;
mod status;
mod table;
mod zone;

pub use age::{Age, problem_with_age};
pub use causes::Causes;
pub use document::{CELLS, Column, ColumnKind, Document, Row, Section};
pub use endpoint::{EndpointState, ListedEndpoint};
pub use error::ViewError;
pub use events::selects;
pub use explain::is_subject;
pub use facts::{CurrentFacts, MAX_CLUSTERS, MAX_FAILING, TableFacts};
pub use filter::{Filter, MAX_LIMIT};
pub use kind::{ViewKind, names};
pub use manual::{manual_command, manual_section};
pub use past::past_time;
pub use server::{Identity, Server};
pub use state::State;

use causes::Counts;
use cluster::{ClusterDetail, ClusterReport, nearest_hint};
use document::{Cells, Report, text_of};
use endpoint::{EndpointReport, NameReply};
use explain::RecordReport;
use filter::{PagePlace, is_listed};
use problems::{ProblemReport, causes_above_services};
use server::Shown;
use state::{OwnName, Verdict, best_answer, is_shown};
use table::{ClusterCell, ServiceRow};

/// Makes the document of what a filter selects. Each view adds its sections.
///
/// # Errors
///
/// If the filter has values without a meaning, or if what it selects is not known any more.
pub fn document(view: ViewKind, server: &Server, filter: &Filter) -> Result<Document, ViewError> {
    let shown = Shown::new(server, filter)?;
    let mut document = shown.document(view);
    match view {
        ViewKind::Table => table::table(&shown, &mut document),
        ViewKind::Endpoints => endpoints::endpoints(&shown, &mut document),
        ViewKind::Explain => explain::explain(&shown, &mut document)?,
        ViewKind::Problems => problems::problems(&shown, &mut document),
        ViewKind::Events => events::events(&shown, &mut document),
        ViewKind::Status => status::status(&shown, &mut document)?,
        ViewKind::Zone => zone::zone(&shown, &mut document)?,
    }
    let note = shown.incomplete().filter(|_| filter.next.is_none());
    // In a zone file, it is a comment.
    let comment = if view == ViewKind::Zone { "; " } else { "" };
    document.fail_if(0, note.map(|note| format!("{comment}{note}")));
    Ok(document)
}

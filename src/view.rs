//! What a server shows, as documents: sections of rows, with cells for people and objects for programs.
//!
//! The server computes, and the commands print. Each [`View`] is one function that makes a [`Document`] of what a [`Filter`]
//! selects. Every list is paged, so a request costs its page. All documents have one printer (`cli/print.rs`).

mod age;
mod causes;
mod clusters;
mod document;
mod endpoint;
mod endpoints;
mod events;
mod explain;
mod facts;
mod failover;
mod filter;
mod page;
mod problems;
mod server;
mod status;
mod table;
mod zone;

use strum::{EnumString, IntoStaticStr, VariantArray};

pub use age::{Age, problem_with_age};
pub use causes::Causes;
pub use document::{CELLS, Column, ColumnKind, Document, Items, Row, Section};
pub use endpoint::{EndpointState, NameReply};
pub use events::selects;
pub use explain::is_subject;
pub use facts::{CurrentFacts, INTENDED_FAILURES, MAX_CLUSTERS, MAX_FAILING, TableFacts};
pub use filter::{Filter, Parameter};
pub use page::MAX_LIMIT;
pub use server::{Identity, Server, ViewError};

/// The views: `/api/v1/NAME`, and what the commands print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum View {
    /// The services, those with trouble first.
    Table,
    /// The endpoints of services.
    Endpoints,
    /// The answer for a name or an address, and why.
    Explain,
    /// What is wrong: causes first.
    Problems,
    /// The last changes of answers.
    Events,
    /// The server and its source.
    Status,
    /// The records of a zone, as in a zone file (RFC 1035 section 5).
    Zone,
}

// === impl View ===

impl View {
    /// Returns the name, which is that of the document and of the path.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Makes the document of what a filter selects.
    ///
    /// # Errors
    ///
    /// If the filter has values without a meaning, or if what it selects is not known any more.
    pub fn document(self, server: &Server, filter: &Filter) -> Result<Document, ViewError> {
        match self {
            Self::Table => table::table(server, filter),
            Self::Endpoints => endpoints::endpoints(server, filter),
            Self::Explain => explain::explain(server, filter),
            Self::Problems => problems::problems(server, filter),
            Self::Events => events::events(server, filter),
            Self::Status => status::status(server, filter),
            Self::Zone => zone::zone(server, filter),
        }
    }

    /// Returns whether it is a list of rows, of which a request takes a page.
    pub fn is_list(self) -> bool {
        self.parameters().contains(&Parameter::Continue)
    }

    /// Returns the parameters that a filter of this view may have.
    pub fn parameters(self) -> &'static [Parameter] {
        use Parameter::{
            After, At, Cluster, Continue, Kind, Limit, Name, Namespace, Since, State, Text, Zone,
        };
        match self {
            Self::Table | Self::Endpoints => {
                &[Namespace, Cluster, State, Text, At, Limit, Continue]
            }
            Self::Explain => &[Name, Namespace, At, Limit, Continue],
            Self::Problems => &[Namespace, Cluster, Kind, Text, At, Limit, Continue],
            Self::Events => &[Namespace, Cluster, Kind, Text, Since, After, Limit],
            Self::Status => &[At],
            Self::Zone => &[Zone, At, Limit, Continue],
        }
    }
}

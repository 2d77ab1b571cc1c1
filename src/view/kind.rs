//! The views and their parameters.

use strum::{EnumString, IntoStaticStr, VariantArray};

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

/// The parameters of a query string. Items of lists are separated by commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
#[expect(missing_docs, reason = "those of `Filter`")]
pub enum Parameter {
    Namespace,
    Cluster,
    State,
    Kind,
    Text,
    Name,
    Zone,
    At,
    Since,
    After,
    Limit,
    Continue,
}

// === impl View ===

impl View {
    /// Returns the name, which is that of the document and of the path.
    pub fn name(self) -> &'static str {
        self.into()
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

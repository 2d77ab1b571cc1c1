//! The views and the parameters of their query strings. Items of lists are separated by commas.

use strum::{EnumString, IntoStaticStr, VariantArray};

use super::error::ViewError;

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

    /// Returns whether it is a list of rows, of which a request takes a page.
    pub fn is_list(self) -> bool {
        self.parameters().any(|name| name == "continue")
    }

    /// Checks the names of the parameters of a request.
    ///
    /// # Errors
    ///
    /// If the view does not have one of them.
    pub fn check<'n>(self, names: impl IntoIterator<Item = &'n str>) -> Result<(), ViewError> {
        let known: Vec<&str> = self.parameters().collect();
        let unknown = names.into_iter().find(|name| !known.contains(name));
        let why = || format!("{} takes {}", self.name(), known.join(", "));
        unknown.map_or(Ok(()), |name| {
            Err(ViewError::invalid("parameter", name, &why()))
        })
    }

    /// Returns the parameters that a filter of this view may have.
    fn parameters(self) -> impl Iterator<Item = &'static str> {
        let names = match self {
            Self::Table | Self::Endpoints => "namespace cluster state text at limit continue",
            Self::Explain => "name at limit continue",
            Self::Problems => "namespace cluster kind text at limit continue",
            Self::Events => "namespace cluster kind text since after limit",
            Self::Status => "at",
            Self::Zone => "zone at limit continue",
        };
        names.split(' ')
    }
}

//! The views and the parameters of their query strings. Items of lists are separated by commas.

use serde::Deserialize;
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::{EndpointState, Filter, State, ViewError};
use crate::model::ProblemKind;
use crate::table::change::ChangeKind;

/// The views: `/api/v1/NAME`, and what the commands print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum ViewKind {
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

/// Maximum number of texts of a filter, and of the items of other lists.
const MAX_TEXTS: usize = 12;
const MAX_ITEMS: usize = 100;
/// Maximum length of an item in octets: that of a name (RFC 1035 section 2.3.4).
const MAX_ITEM_OCTETS: usize = 255;

// === impl ViewKind ===

impl ViewKind {
    /// Returns the name, which is that of the document and of the path.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether it is a list of rows, of which a request takes a page.
    pub fn is_list(self) -> bool {
        self.parameters().any(|name| name == "continue")
    }

    /// Reads the filter of a request from its query string.
    ///
    /// # Errors
    ///
    /// If the view does not have a parameter, or a value cannot be used. The error names both.
    pub fn filter(self, query: &str) -> Result<Filter, ViewError> {
        let unreadable = |error: String| ViewError::invalid("the query string", query, &error);
        let given: Vec<(String, String)> = parsed(query).map_err(unreadable)?;
        let known: Vec<&str> = self.parameters().collect();
        for (name, value) in &given {
            let invalid = |why: String| Err(ViewError::invalid(name, value, &why));
            if !known.contains(&name.as_str()) {
                let why = format!("{} takes {}", self.name(), known.join(", "));
                return Err(ViewError::invalid("parameter", name, &why));
            }
            // Each item of a list is compared with each service.
            let most = if name == "text" { MAX_TEXTS } else { MAX_ITEMS };
            let items: Vec<&str> = value.split(',').collect();
            if items.len() > most || items.iter().any(|item| item.len() > MAX_ITEM_OCTETS) {
                return invalid(format!(
                    "at most {most} values, of at most {MAX_ITEM_OCTETS} octets each"
                ));
            }
            let values = self.values(name);
            let is_unknown = |item: &&&str| !item.is_empty() && !values.contains(item);
            if let Some(item) = items.iter().find(is_unknown).filter(|_| !values.is_empty()) {
                let why = format!("it is one of {}", values.join(", "));
                return Err(ViewError::invalid(name, item, &why));
            }
            let alone = serde_urlencoded::to_string([(name, value)]).unwrap_or_default();
            if let Err(error) = parsed::<Filter>(&alone) {
                return invalid(error);
            }
        }
        parsed(query).map_err(unreadable)
    }

    /// Returns the values of a parameter that selects some of a fixed set.
    fn values(self, parameter: &str) -> Vec<&'static str> {
        match (self, parameter) {
            (Self::Table, "state") => names::<State>(),
            (Self::Endpoints, "state") => names::<EndpointState>(),
            (Self::Problems, "kind") => names::<ProblemKind>(),
            (Self::Events, "kind") => names::<ChangeKind>(),
            _ => Vec::new(),
        }
    }

    /// Returns the parameters that a filter of this view may have.
    fn parameters(self) -> impl Iterator<Item = &'static str> {
        let names = match self {
            Self::Table | Self::Endpoints => "namespace cluster state text at limit continue",
            Self::Explain => "name namespace at limit continue",
            Self::Problems => "namespace cluster kind text at limit continue",
            Self::Events => "namespace cluster kind text since after limit",
            Self::Status => "cluster at",
            Self::Zone => "zone at limit continue",
        };
        names.split(' ')
    }
}

/// Returns the names of the variants of a type.
pub fn names<K: VariantArray + Copy + Into<&'static str>>() -> Vec<&'static str> {
    K::VARIANTS.iter().map(|one| (*one).into()).collect()
}

fn parsed<'q, T: Deserialize<'q>>(query: &'q str) -> Result<T, String> {
    serde_urlencoded::from_str(query).map_err(|error| error.to_string())
}

//! The endpoints of an explanation as text, with few columns or with all.

use super::Explanation;
use crate::report::{EndpointReport, TextForm, write_rows};

// === impl Explanation ===

impl Explanation {
    /// Writes the endpoints. The wide form has a heading and the kind of each endpoint.
    pub(super) fn write_endpoints(&self, text: &mut String, form: TextForm) -> std::fmt::Result {
        let rows = self.endpoints.iter().map(EndpointReport::row);
        match form {
            TextForm::Narrow => write_rows(text, &rows.collect::<Vec<_>>()),
            TextForm::Wide => {
                let head = EndpointReport::HEAD.map(str::to_owned);
                let kinds = self.endpoints.iter().map(|endpoint| endpoint.kind.clone());
                let kinds = std::iter::once("KIND".to_owned()).chain(kinds);
                let rows = std::iter::once(head).chain(rows).zip(kinds);
                let rows = rows.map(
                    |([cluster, host, addresses, ports, state, returned, object], kind)| {
                        [
                            kind, cluster, host, addresses, ports, state, returned, object,
                        ]
                    },
                );
                write_rows(text, &rows.collect::<Vec<_>>())
            }
        }
    }
}

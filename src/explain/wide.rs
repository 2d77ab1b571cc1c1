//! The endpoints of an explanation as text, with few columns or with all.

use super::Explanation;
use crate::report::{EndpointReport, Style, TextForm, write_rows};

/// The columns of the wide form. The narrow one has neither headings nor the kind.
const HEAD: [&str; 8] = [
    "KIND",
    "CLUSTER",
    "HOST",
    "ADDRESSES",
    "PORTS",
    "STATE",
    "OBJECT",
    "WHY",
];

// === impl Explanation ===

impl Explanation {
    /// Writes the endpoints: first those that the replies contain, then those that they lack, with the reasons.
    pub(super) fn write_endpoints(&self, text: &mut String, style: Style) -> std::fmt::Result {
        for (heading, is_returned) in [("\nreturned:\n", true), ("\nleft out:\n", false)] {
            let endpoints = self.endpoints.iter();
            let mut rows: Vec<_> = endpoints
                .filter(|endpoint| endpoint.returned == is_returned)
                .map(|endpoint| row(endpoint, style))
                .collect();
            if rows.is_empty() {
                continue;
            }
            text.push_str(heading);
            match style.form {
                TextForm::Narrow => {
                    let rows = rows.into_iter().map(|[_, rest @ ..]| rest);
                    write_rows(text, &rows.collect::<Vec<_>>())?;
                }
                TextForm::Wide => {
                    rows.insert(0, HEAD.map(str::to_owned));
                    write_rows(text, &rows)?;
                }
            }
        }
        Ok(())
    }
}

fn row(endpoint: &EndpointReport, style: Style) -> [String; 8] {
    let [cluster, host, addresses, ports, state, _, object] = endpoint.row(style.colors);
    let why = endpoint.why.clone().unwrap_or_default();
    let age = endpoint.age.to_text(style);
    let why = if age.is_empty() {
        why
    } else {
        format!("{why} ({age})")
    };
    let kind = endpoint.kind.clone();
    [kind, cluster, host, addresses, ports, state, object, why]
}

//! The error of a command that needs a table and gets none.

use std::time::Duration;

use anyhow::anyhow;

use super::Source;
use crate::source::Feeds;

/// Where a source reads, for messages.
pub(super) struct TableSource {
    /// The URL of the API server, and where it is from. `None`: files.
    cluster: Option<(String, String)>,
    /// What to do if the source has no table.
    way_out: String,
}

impl TableSource {
    /// Returns the origin of a source.
    pub(super) fn of(source: &Source) -> Self {
        match source {
            Source::Files(_) => Self {
                cluster: None,
                way_out: "check the files of --file".to_owned(),
            },
            Source::Cluster(cluster) => Self {
                cluster: Some((
                    cluster.url().trim_end_matches('/').to_owned(),
                    cluster.credentials().to_string(),
                )),
                way_out: cluster.credentials().way_out(),
            },
        }
    }

    /// Returns the error after a wait for the first table.
    pub(super) fn no_table(&self, feeds: &Feeds, waited: Duration) -> anyhow::Error {
        let mut problems: Vec<String> = feeds.distinct_failures().into_iter().collect();
        if problems.is_empty() {
            let seconds = waited.as_secs();
            problems = vec![format!("no complete list within {seconds} s")];
        }
        // Kubernetes 1.21 and older lack an API or a selector.
        let is_old = problems
            .iter()
            .any(|problem| problem.contains("returned 404"));
        let version = if is_old {
            " (global-dns needs Kubernetes 1.22 or later)"
        } else {
            ""
        };
        let why = problems.join("; ");
        let (place, way_out) = match &self.cluster {
            None => (String::new(), &self.way_out),
            Some((url, from)) if why.contains(url.as_str()) => (format!("{from}: "), &self.way_out),
            Some((url, from)) => (format!("{url}, {from}: "), &self.way_out),
        };
        anyhow!("there is no complete table: {place}{why}{version}; {way_out}")
    }
}

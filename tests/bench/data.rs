//! Served objects, and questions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value;
use support::objects::{Manifest, Mirror, gateway_mirror, mirror};

/// Headless services of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Services {
    /// Prefix of their names; a number follows.
    pub(crate) prefix: &'static str,
    /// Number of services.
    pub(crate) count: usize,
    /// Number of clusters that each service has, from [`CLUSTERS`].
    pub(crate) clusters: usize,
    /// Number of endpoints of each service in each cluster.
    pub(crate) endpoints: usize,
    /// The number of the first address, see [`address`].
    pub(crate) first: usize,
}

/// Names of target clusters.
const CLUSTERS: [&str; 3] = ["east", "west", "north"];
/// Number of namespaces that share the services.
const NAMESPACES: usize = 50;

// === impl Services ===

impl Services {
    /// Returns the mirrors, endpoint mirrors and slices.
    pub(crate) fn objects(&self) -> Manifest {
        let mut number = self.first;
        let mut objects = Manifest::default();
        for index in 0..self.count {
            for cluster in &CLUSTERS[..self.clusters] {
                let mirror = self.mirror(index, cluster);
                objects.0.push(mirror.service());
                for endpoint in 0..self.endpoints {
                    let host = format!("{}-{endpoint}", mirror.service_name());
                    objects
                        .0
                        .push(mirror.endpoint_mirror(&host, &[&address(number)]));
                    objects.0.push(mirror.slice(&host, true));
                    number += 1;
                }
            }
        }
        objects
    }

    /// Returns the mirror of a service in a cluster.
    pub(crate) fn mirror(&self, index: usize, cluster: &str) -> Mirror {
        let name = format!("{}{index}", self.prefix);
        mirror(&namespace(index), &name, cluster).ports(&[("sql", "TCP", 26_257)])
    }

    /// Returns a file with a question for each service. `prefix` precedes its name.
    pub(crate) fn questions(&self, folder: &Path, prefix: &str, rtype: &str) -> Result<PathBuf> {
        let question = |index| {
            let (own, namespace) = (self.prefix, namespace(index));
            format!("{prefix}{own}{index}.{namespace}.global. {rtype}\n")
        };
        let file = folder.join(format!("{prefix}{}{rtype}.questions", self.prefix));
        fs::write(&file, (0..self.count).map(question).collect::<String>())?;
        Ok(file)
    }
}

/// Returns mirrors with a cluster IP, each with a slice.
pub(crate) fn mirrors_with_cluster_ip(count: usize) -> Vec<Value> {
    let mirror = |number| {
        let service = format!("web{}", number / 2);
        let cluster = CLUSTERS[number % 2];
        gateway_mirror(&namespace(number / 2), &service, cluster, &address(number))
    };
    (0..count).map(mirror).collect::<Manifest>().0
}

/// Returns one of a million addresses of the service range.
pub(crate) fn address(number: usize) -> String {
    let [third, fourth] = [number / 256 % 256, number % 256];
    format!("10.{}.{third}.{fourth}", 96 + number / 65_536)
}

fn namespace(index: usize) -> String {
    format!("ns{}", index % NAMESPACES)
}

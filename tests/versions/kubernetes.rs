//! The versions of Kubernetes, each with the CoreDNS that kubeadm installs.

use anyhow::{Context, Result, ensure};
use support::cluster::{CONTROLLERS, CONTROLLERS_OF_1_27, Cluster};
use support::commands::{command, tool};
use support::process::run_checked;

/// A version of Kubernetes.
pub struct Kubernetes {
    /// Its minor version, such as `1.27`.
    pub minor: &'static str,
    /// End of the names of its programs.
    suffix: &'static str,
    controllers: &'static str,
    /// The program of CoreDNS, and the version in kubeadm's `constants.go`.
    pub coredns: &'static str,
    coredns_of_kubeadm: &'static str,
}

/// The oldest version that the chart accepts, the newest one, and one between.
pub const VERSIONS: [Kubernetes; 3] = [
    Kubernetes {
        minor: "1.27",
        suffix: "_1_27",
        controllers: CONTROLLERS_OF_1_27,
        coredns: "coredns_1_10",
        coredns_of_kubeadm: "1.10.1",
    },
    Kubernetes {
        minor: "1.33",
        suffix: "",
        controllers: CONTROLLERS,
        coredns: "coredns_1_12",
        coredns_of_kubeadm: "1.12.0",
    },
    Kubernetes {
        minor: "1.37",
        suffix: "_1_37",
        controllers: CONTROLLERS,
        coredns: "coredns_1_14",
        coredns_of_kubeadm: "1.14.6",
    },
];

// === impl Kubernetes ===

impl Kubernetes {
    pub fn start(&self) -> Result<Cluster> {
        Cluster::start_version(self.suffix, self.controllers, &[])
    }

    /// Returns the version that the API server reports.
    pub fn version(&self, cluster: &Cluster) -> Result<String> {
        let version = cluster.read("/version")?;
        let found = version["gitVersion"].as_str().context("no version")?;
        ensure!(
            found.starts_with(&format!("v{}.", self.minor)),
            "the API server is {found}"
        );
        Ok(found.trim_start_matches('v').to_owned())
    }

    /// Returns the version that CoreDNS reports.
    pub fn coredns_version(&self) -> Result<String> {
        let text = run_checked(command(tool(self.coredns)?).arg("-version"))?;
        let found = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("CoreDNS-"))
            .context("no version")?;
        ensure!(found == self.coredns_of_kubeadm, "CoreDNS is {found}");
        Ok(found.to_owned())
    }
}

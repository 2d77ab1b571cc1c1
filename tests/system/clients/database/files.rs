//! The names and files of the members.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, NAMESPACE, Service};
use support::repository::repository;

/// Returns the global name of the member in a cluster.
pub fn name_of(service: &'static Service, cluster: usize) -> String {
    service.member(cluster, 0).global_name()
}

/// Returns the address of the pod of the member in a cluster.
pub fn address_of(service: &'static Service, cluster: usize) -> String {
    service.member(cluster, 0).pod_address()
}

/// Returns the cluster of a global name of a member.
pub fn cluster_of(service: &Service, name: &str) -> Option<usize> {
    ALL.into_iter().find(|&cluster| {
        let site = CLUSTERS[cluster].name;
        name.ends_with(&format!(".{site}.{}.{NAMESPACE}.global", service.name))
    })
}

/// Copies a file of `tests/system/clients` for the member of a cluster. Replaces `SELF` by its global name, `ADDRESS` by the
/// address of its pod, and `DATA` by its directory. A copy that the program may have changed is kept.
pub fn configuration(
    clusters: &Clusters,
    service: &'static Service,
    cluster: usize,
    file: &str,
) -> Result<PathBuf> {
    let folder = data(clusters, cluster)?;
    let source = repository("tests/system/clients").join(file);
    let target = folder.join(Path::new(file).file_name().context("not a file")?);
    if !target.exists() {
        let text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
        let member = service.member(cluster, 0);
        let text = text
            .replace("SELF", &member.global_name())
            .replace("ADDRESS", &member.pod_address())
            .replace("DATA", &folder.display().to_string());
        fs::write(&target, text)?;
    }
    Ok(target)
}

/// Returns the directory of the member of a cluster.
pub fn data(clusters: &Clusters, cluster: usize) -> Result<PathBuf> {
    let folder = clusters.directory().join(CLUSTERS[cluster].name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

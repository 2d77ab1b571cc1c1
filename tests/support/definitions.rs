//! Definitions of custom resources (CRDs) of other projects. `tests/run` downloads them.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::output::suite_name;

/// Writes the definitions of the objects for the Prometheus operator.
pub fn define_monitoring(cluster: &Cluster) -> Result<()> {
    let folder = env::var_os("GLOBAL_DNS_TEST_CRDS").with_context(|| {
        let suite = suite_name();
        format!("GLOBAL_DNS_TEST_CRDS is not set; use tests/run {suite}, which downloads the CRDs")
    })?;
    for resource in ["servicemonitors", "prometheusrules"] {
        let file = format!("monitoring.coreos.com_{resource}.yaml");
        let file = PathBuf::from(&folder).join(file);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let options = serde_saphyr::options! { budget: None };
        let definition: Value = serde_saphyr::from_str_with_options(&text, options)?;
        cluster.put(&definition)?;
    }
    Ok(())
}

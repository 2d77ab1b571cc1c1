//! Definitions of custom resources (CRDs) of other projects. `tests/run` downloads them.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::output::suite_name;

/// Returns the text of the definition of a resource, such as `monitoring.coreos.com_prometheusrules`.
pub fn definition(resource: &str) -> Result<String> {
    let folder = env::var_os("GLOBAL_DNS_TEST_CRDS").with_context(|| {
        let suite = suite_name();
        format!("GLOBAL_DNS_TEST_CRDS is not set; use tests/run {suite}, which downloads the CRDs")
    })?;
    let file = PathBuf::from(folder).join(format!("{resource}.yaml"));
    fs::read_to_string(&file).with_context(|| file.display().to_string())
}

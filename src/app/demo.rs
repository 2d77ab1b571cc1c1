//! `demo`: `serve --file` with a copy of the built-in sample, and the commands to try.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tracing::warn;

use super::serve::{RunningServer, serve};
use crate::cli::{DemoArgs, SourceArgs, print};
use crate::settings::{Period, Settings};
use crate::table::DEFAULT_CLUSTER_NAME;

/// The built-in sample.
const SAMPLE: &str = include_str!("../demo.yaml");

/// The commands to try, with placeholders.
const HINTS: &str = include_str!("../demo-hints.txt");

/// The second zone of the demo, unless its settings have other zones.
const MCS_ZONE: &str = "clusterset.local=mcs";

/// Runs `serve --file` with a copy of the built-in sample, which the user may edit. It is removed at the end.
pub(super) async fn demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let folder = env::temp_dir().join(format!("global-dns-demo-{:016x}", fastrand::u64(..)));
    // Nobody else can have made it, or a link in it, or can open it.
    DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .context("cannot make a folder for the sample")?;
    let served = serve_sample(args.settings.loaded, folder.join("demo.yaml")).await;
    // Somebody may have removed it.
    _ = fs::remove_dir_all(&folder);
    served
}

async fn serve_sample(mut settings: Settings, sample: PathBuf) -> anyhow::Result<ExitCode> {
    fs::write(&sample, SAMPLE)
        .with_context(|| format!("cannot write the sample to {}", sample.display()))?;
    if settings.cluster_name.as_str() == DEFAULT_CLUSTER_NAME {
        settings.cluster_name = "hub".parse().map_err(anyhow::Error::msg)?;
    }
    if settings.zones == Settings::default().zones {
        let mcs = MCS_ZONE.parse().map_err(anyhow::Error::msg)?;
        settings.zones.push(mcs);
    }
    settings.grace = Period(Duration::ZERO); // nobody depends on a demo
    let source = SourceArgs {
        file: vec![sample.clone()],
        ..SourceArgs::default()
    };
    serve(&settings, &source, |started| {
        // The server works without the hints.
        print(&hints(started, &sample).unwrap_or_default())
            .unwrap_or_else(|error| warn!(%error, "Cannot print the hints"));
    })
    .await
}

/// Returns the commands to try with a demo.
fn hints(started: &RunningServer, sample: &Path) -> Option<String> {
    let dns = started.shown.identity.servers.first()?;
    let api = started.api.first()?;
    let hints = HINTS
        .replace("DIG", &format!("dig @{} -p {}", dns.ip(), dns.port()))
        .replace("PROGRAM", &env::args().next()?)
        .replace("ADDRESS", &api.to_string())
        .replace("SAMPLE", &sample.display().to_string());
    Some(hints)
}

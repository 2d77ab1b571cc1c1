//! `demo`: `serve --file` with a copy of the built-in sample, and the commands to try. With `--live`, the sample changes.

mod live;

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tracing::warn;

use super::serve::{Server, serve};
use crate::cli::{DemoArgs, SourceArgs, print};
use crate::settings::{Period, Settings};

/// The commands to try, with placeholders.
const HINTS: &str = include_str!("../demo-hints.txt");

/// The second zone of the demo, unless its settings have other zones.
const MCS_ZONE: &str = "clusterset.local=mcs";

/// `failover.back` of a live demo. The default is longer than a scene.
const LIVE_FAILBACK_DELAY: Duration = Duration::from_secs(2);

/// Runs `serve --file` with a copy of the built-in sample. The user may edit the copy, or `--live` does. It is removed at the end.
pub(super) async fn demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let folder = env::temp_dir().join(format!("global-dns-demo-{:016x}", fastrand::u64(..)));
    // Nobody else can have made it, or a link in it, or can open it.
    let made = DirBuilder::new().mode(0o700).create(&folder);
    made.context("cannot make a folder for the sample")?;
    let served = serve_sample(args, folder.join("demo.yaml")).await;
    // Somebody may have removed it.
    _ = fs::remove_dir_all(&folder);
    served
}

async fn serve_sample(args: DemoArgs, sample: PathBuf) -> anyhow::Result<ExitCode> {
    fs::write(&sample, live::SAMPLE)
        .with_context(|| format!("cannot write the sample to {}", sample.display()))?;
    let live = args.live;
    let mut settings = args.settings.loaded;
    let name = "hub".parse();
    settings.cluster_name = name.context("the sample has an invalid cluster name")?;
    if settings.zones == Settings::default().zones {
        let mcs = MCS_ZONE.parse().map_err(anyhow::Error::msg)?;
        settings.zones.push(mcs);
    }
    settings.grace = Period(Duration::ZERO); // nobody depends on a demo
    if live.is_some() {
        settings.failover.back = Period(LIVE_FAILBACK_DELAY);
    }
    let source = SourceArgs {
        file: vec![sample.clone()],
        ..SourceArgs::default()
    };
    serve(&settings, &source, |started| {
        // The server works without the hints.
        print(&hints(started, &sample, live.is_some()).unwrap_or_default())
            .unwrap_or_else(|error| warn!(%error, "Cannot print the hints"));
        if let Some(pause) = live {
            let steps = live::play(sample.clone(), started.shown.feeds.events.clone(), pause);
            tokio::spawn(async {
                let ended = steps.await;
                ended.unwrap_or_else(|error| warn!(%error, "Cannot change the sample"));
            });
        }
    })
    .await
}

/// Returns the commands to try with a demo.
fn hints(started: &Server, sample: &Path, is_live: bool) -> Option<String> {
    let (dns, api) = (
        started.shown.identity.servers.first()?,
        started.api.first()?,
    );
    let program = env::args().next()?;
    let hints = HINTS
        .replace("DIG", &format!("dig @{} -p {}", dns.ip(), dns.port()))
        .replace("PROGRAM", &program)
        .replace("ADDRESS", &api.to_string());
    let end = match is_live {
        true => "The sample changes in a loop".to_owned(),
        false => format!("Edit {} and repeat a query", sample.display()),
    };
    Some(format!("{hints}{end}. Ctrl-C stops the demo.\n\n"))
}

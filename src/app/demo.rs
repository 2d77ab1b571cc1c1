//! `demo`: `serve --file` with a copy of the built-in sample, and the commands to try. With `--live`, the sample changes.

mod live;

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tracing::warn;

use super::serve::{Started, serve};
use crate::cli::{DemoArgs, print};
use crate::settings::{Period, ZoneSetting};

/// The queries that `demo` suggests, each group with a heading.
const QUESTIONS: [(&str, &[&str]); 5] = [
    (
        "One service in three clusters, including this cluster:",
        &["db.prod.global", "_sql._tcp.db.prod.global SRV"],
    ),
    (
        "Its short name; the endpoints of one cluster; one endpoint:",
        &[
            "db.global",
            "east.db.prod.global",
            "db-0.west.db.prod.global",
        ],
    ),
    (
        "A service name with a dash; a service with all its gateways down, which still returns its endpoints:",
        &["db-east.shop.global", "cache.prod.global"],
    ),
    (
        "Services with cluster IPs: through gateways; in a flat network; federated:",
        &[
            "pay.shop.global",
            "_http._tcp.pay.shop.global SRV",
            "api.shop.global",
            "web.shop.global",
        ],
    ),
    (
        "The names of the Multi-Cluster Services API:",
        &["db.prod.svc.clusterset.local"],
    ),
];

/// The second zone of the demo, unless its settings have other zones.
const MCS_ZONE: &str = "clusterset.local=mcs";

/// `failover.back` of a live demo. The default is longer than a scene.
const LIVE_FAILBACK_DELAY: Duration = Duration::from_secs(2);

/// Runs `serve --file` with a copy of the built-in sample. The user may edit the copy, or `--live` does.
pub(super) async fn demo(args: DemoArgs) -> anyhow::Result<ExitCode> {
    // Nobody else can have made the folder, or a link in it, or can open it.
    let folder = tempfile::Builder::new()
        .prefix("global-dns-demo-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    let folder = folder.context("cannot make a folder for the sample")?;
    let sample = folder.path().join("demo.yaml");
    let file =
        File::create_new(&sample).and_then(|mut file| file.write_all(live::SAMPLE.as_bytes()));
    file.with_context(|| format!("cannot write the sample to {}", sample.display()))?;
    let live = args.live;
    let mut serve_args = args.to_serve();
    serve_args.source.file = vec![sample.clone()];
    let settings = &mut serve_args.settings.loaded;
    settings.cluster_name = "hub"
        .parse()
        .context("the sample has an invalid cluster name")?;
    if settings.zones == [ZoneSetting::default()] {
        let mcs = MCS_ZONE.parse().map_err(anyhow::Error::msg)?;
        settings.zones.push(mcs);
    }
    settings.grace = Period(Duration::ZERO); // nobody depends on a demo
    if live.is_some() {
        settings.failover.back = Period(LIVE_FAILBACK_DELAY);
    }
    // The folder is removed at the end.
    serve(serve_args, |started| {
        print_hints(started, &sample, live.is_some());
        if let Some(pause) = live {
            let steps = live::play(sample.clone(), started.events.clone(), pause);
            tokio::spawn(async {
                let ended = steps.await;
                ended.unwrap_or_else(|error| warn!(%error, "Cannot change the sample"));
            });
        }
    })
    .await
}

/// Prints the commands to try with the demo.
fn print_hints(started: &Started, sample: &Path, is_live: bool) {
    if let Some(address) = started.dns.first() {
        let api = started.api.first().copied();
        // The server works without the hints.
        print(&hints(*address, api, sample, is_live))
            .unwrap_or_else(|error| warn!(%error, "Cannot print the hints"));
    }
}

/// Returns the commands to try with a demo that listens on `address`.
fn hints(address: SocketAddr, api: Option<SocketAddr>, sample: &Path, is_live: bool) -> String {
    let (ip, port) = (address.ip(), address.port());
    let command = |question: &&str| format!("  dig @{ip} -p {port} {question}\n");
    let questions = QUESTIONS.iter().map(|(heading, questions)| {
        let commands: String = questions.iter().map(command).collect();
        format!("{heading}\n{commands}")
    });
    let program = std::env::args()
        .next()
        .unwrap_or_else(|| "global-dns".to_owned());
    let sample = sample.display();
    let commands = api
        .map(|api| {
            let commands = ["explain db.prod", "table"]
                .map(|command| format!("  {program} {command} --server {api}\n"));
            format!(
                "The explanation of an answer; all services:\n{}",
                commands.concat()
            )
        })
        .unwrap_or_default();
    let page = api.map(|api| format!("The status page: http://{api}/\n"));
    let end = if is_live {
        "The sample changes in a loop. Ctrl-C stops the demo.\n\n".to_owned()
    } else {
        format!("Edit {sample} and repeat a query. Ctrl-C stops the demo.\n\n")
    };
    let questions: String = questions.collect();
    format!("\n{questions}{commands}{}{end}", page.unwrap_or_default())
}

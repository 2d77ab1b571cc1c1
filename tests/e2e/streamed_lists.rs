//! Lists of an API server that streams them (feature gate `WatchList`), and of one that does not, by its audit log.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::observer::addresses_of;
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::clusters_come_and_go::{
    FOLLOW, NGINX, answer_after_the_recordings, state_after_the_recordings,
};

/// Every request, when it was answered.
const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                      rules:\n- {level: Metadata, verbs: [list, watch]}\n- level: None\n";

pub fn run(steps: &mut Steps) {
    steps.step(
        "an_api_server_that_streams_lists_is_asked_for_no_other",
        || {
            let log = lists(true)?;
            let whole = log.of("list").count();
            ensure!(whole == 0, "{whole} lists");
            let streamed = log.streamed(200)?;
            ensure!(streamed > 10, "{streamed} streamed lists");
            say(&format!(
                "WatchList: {streamed} streamed lists, and no other"
            ));
            Ok(())
        },
    );
    steps.step("an_api_server_that_does_not_is_asked_once", || {
        let log = lists(false)?;
        let (refused, whole) = (log.streamed(422)?, log.of("list").count());
        ensure!(refused == 1, "{refused} streamed lists");
        ensure!(whole > 10, "{whole} lists");
        say(&format!(
            "no WatchList: {refused} streamed list refused, {whole} lists"
        ));
        Ok(())
    });
}

/// What an API server says that it was asked.
struct AuditLog(Vec<Value>);

impl AuditLog {
    /// Reads what was asked by the program under test, in this version.
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let name = format!("global-dns/{}", env!("CARGO_PKG_VERSION"));
        // The last line may not be whole yet.
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let ours = events.filter(|event: &Value| event["userAgent"] == name.as_str());
        Ok(Self(ours.collect()))
    }

    fn of<'l>(&'l self, verb: &'l str) -> impl Iterator<Item = &'l Value> {
        // Completed requests alone: a long one is logged at its start, too.
        let is_end =
            move |event: &&Value| event["verb"] == verb && event["stage"] == "ResponseComplete";
        self.0.iter().filter(is_end)
    }

    /// How many streamed lists there were, which were all answered with one code.
    fn streamed(&self, code: u16) -> Result<usize> {
        let is_streamed = |event: &&Value| {
            let uri = event["requestURI"].as_str().unwrap_or_default();
            uri.contains("sendInitialEvents=true")
        };
        let streamed: Vec<&Value> = self.of("watch").filter(is_streamed).collect();
        let codes: BTreeSet<u64> = streamed
            .iter()
            .filter_map(|event| event["responseStatus"]["code"].as_u64())
            .collect();
        ensure!(codes == BTreeSet::from([code.into()]), "codes {codes:?}");
        Ok(streamed.len())
    }
}

/// Runs a server with frequent relists on an API server of its own; returns what that was asked.
fn lists(streams: bool) -> Result<AuditLog> {
    let directory = tempfile::tempdir()?;
    let file = |name: &str| -> PathBuf { directory.path().join(name) };
    fs::write(file("policy.yaml"), POLICY)?;
    let cluster = Cluster::start_with(&[
        format!("--feature-gates=WatchList={streams}"),
        format!("--audit-policy-file={}", file("policy.yaml").display()),
        format!("--audit-log-path={}", file("audit.log").display()),
    ])?;
    cluster.become_state(&state_after_the_recordings()?)?;
    let server = Server::ready_of_cluster(&cluster.kubeconfig, &["--relist", "1s"]);
    let wanted = answer_after_the_recordings();
    let listed = || {
        eventually("a dozen lists", FOLLOW * 4, || {
            let log = AuditLog::read(&file("audit.log"))?;
            let is_list = |event: &&Value| {
                let uri = event["requestURI"].as_str().unwrap_or_default();
                event["verb"] == "list" || uri.contains("sendInitialEvents=true")
            };
            let ended = log.of("list").chain(log.of("watch")).filter(is_list);
            let lists = ended.count();
            ensure!(lists >= 12, "{lists} are");
            Ok(())
        })?;
        let seen = addresses_of(server.dns, NGINX)?;
        ensure!(seen == wanted, "{NGINX} is {seen}, wanted {wanted}");
        let text = server.readyz()?.body;
        ensure!(text == "ok\n", "/readyz says {text}");
        ensure!(server.log.count_level("WARN") == 0, "there are warnings");
        AuditLog::read(&file("audit.log")).context("reading the audit log")
    };
    server.with_log(listed())
}

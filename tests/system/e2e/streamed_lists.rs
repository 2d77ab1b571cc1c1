//! List requests to an API server with and without streamed lists (feature gate `WatchList`), according to its audit
//! log.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::observer::addresses_of;
use support::output::print_line;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::e2e::linked_clusters::{NGINX, answer_after_recordings, state_after_recordings};

/// The audit policy: logs list and watch requests when they complete.
const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                      rules:\n- {level: Metadata, verbs: [list, watch]}\n- level: None\n";

pub fn run(steps: &mut Steps) {
    steps.step(
        "api_server_with_streamed_lists_gets_only_streamed_lists",
        || {
            let log = run_with_relists(true)?;
            let plain = log.completed("list").count();
            ensure!(plain == 0, "{plain} plain lists");
            let streamed = log.count_streamed(200)?;
            ensure!(streamed > 10, "{streamed} streamed lists");
            print_line(&format!(
                "with WatchList: {streamed} streamed lists, no plain list"
            ));
            Ok(())
        },
    );
    steps.step("api_server_without_streamed_lists_gets_one_attempt", || {
        let log = run_with_relists(false)?;
        let (refused, plain) = (log.count_streamed(422)?, log.completed("list").count());
        ensure!(refused == 1, "{refused} streamed lists");
        ensure!(plain > 10, "{plain} plain lists");
        print_line(&format!(
            "without WatchList: {refused} streamed list refused, {plain} plain lists"
        ));
        Ok(())
    });
}

/// The requests in the audit log of an API server.
struct AuditLog(Vec<Value>);

impl AuditLog {
    /// Reads the requests with the user agent of the program under test.
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let name = format!("global-dns/{}", env!("CARGO_PKG_VERSION"));
        // The last line may be incomplete.
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let own = events.filter(|event: &Value| event["userAgent"] == name.as_str());
        Ok(Self(own.collect()))
    }

    fn completed<'l>(&'l self, verb: &'l str) -> impl Iterator<Item = &'l Value> {
        // Only completed requests, because a long request is also logged at its start.
        let is_end =
            move |event: &&Value| event["verb"] == verb && event["stage"] == "ResponseComplete";
        self.0.iter().filter(is_end)
    }

    /// Returns the number of streamed lists. Fails unless all have this status code.
    fn count_streamed(&self, code: u16) -> Result<usize> {
        let is_streamed = |event: &&Value| {
            let uri = event["requestURI"].as_str().unwrap_or_default();
            uri.contains("sendInitialEvents=true")
        };
        let streamed: Vec<&Value> = self.completed("watch").filter(is_streamed).collect();
        let codes: BTreeSet<u64> = streamed
            .iter()
            .filter_map(|event| event["responseStatus"]["code"].as_u64())
            .collect();
        ensure!(
            codes == BTreeSet::from([code.into()]),
            "status codes {codes:?}, expected {code}"
        );
        Ok(streamed.len())
    }
}

/// Runs a server with frequent relists on a new API server. Returns the audit log.
fn run_with_relists(streams: bool) -> Result<AuditLog> {
    let directory = tempfile::tempdir()?;
    let file = |name: &str| -> PathBuf { directory.path().join(name) };
    fs::write(file("policy.yaml"), POLICY)?;
    let cluster = Cluster::start_with(&[
        format!("--feature-gates=WatchList={streams}"),
        format!("--audit-policy-file={}", file("policy.yaml").display()),
        format!("--audit-log-path={}", file("audit.log").display()),
    ])?;
    cluster.apply_state(&state_after_recordings()?)?;
    let server =
        Server::ready_of_cluster(&cluster.kubeconfig, &["--relist", "1s", "--links", "off"]);
    let expected = answer_after_recordings();
    let check = || {
        eventually("12 lists", || {
            let log = AuditLog::read(&file("audit.log"))?;
            let is_list = |event: &&Value| {
                let uri = event["requestURI"].as_str().unwrap_or_default();
                event["verb"] == "list" || uri.contains("sendInitialEvents=true")
            };
            let ended = log
                .completed("list")
                .chain(log.completed("watch"))
                .filter(is_list);
            let lists = ended.count();
            ensure!(lists >= 12, "{lists} lists");
            Ok(())
        })?;
        let answer = addresses_of(server.dns, NGINX)?;
        ensure!(
            answer == expected,
            "{NGINX} is {answer}, expected {expected}"
        );
        let text = server.readyz()?.body;
        ensure!(text == "ok\n", "/readyz returned {text}");
        ensure!(server.log.count_level("WARN") == 0, "the log has warnings");
        AuditLog::read(&file("audit.log")).context("cannot read the audit log")
    };
    server.with_log(check())
}

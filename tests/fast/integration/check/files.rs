//! `check` with files.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use support::commands::global_dns;
use support::kubeconfig::Kubeconfig;
use support::objects::{self, Manifest, mirror, objects};
use support::process::{run, run_global_dns};
use tempfile::TempDir;

use super::{checkup, finding};

fn file_of(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.yaml");
    std::fs::write(&path, text).unwrap();
    let flag = format!("--file={}", path.display());
    (folder, flag)
}

fn healthy() -> Manifest {
    let db = |cluster: &str, address: &str| {
        let mut manifest: Manifest = mirror("prod", "db", cluster)
            .endpoint("db-0", &[address])
            .into();
        for object in &mut manifest.0 {
            object["metadata"]["annotations"]["config.linkerd.io/opaque-ports"] = json!("26257");
        }
        manifest
    };
    objects()
        .with(db("east", "10.96.1.1"))
        .with(db("west", "10.96.2.1"))
        .with(link("east"))
        .with(link("west"))
}

fn link(cluster: &str) -> Value {
    let name = format!("link-to-{cluster}");
    objects::link("linkerd-multicluster", &name, cluster)
}

#[test]
fn check_waits_until_no_line_is_failing() {
    let ambiguous = mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]);
    let (folder, file) = file_of(&healthy().with(ambiguous).text());
    // The time is over before the problem is.
    let ended = run_global_dns(&["check", "--wait=1s", &file]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""));
    assert!(ended.stdout.contains("short-name"), "{}", ended.stdout);
    let mut command = global_dns(&["check", "--wait=1m", &file]);
    command
        .env("GLOBAL_DNS_LOG_LEVEL", "info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The first diagnosis reads the file.
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Published table") {
        line.clear();
        assert_ne!(
            log.read_line(&mut line).unwrap(),
            0,
            "no table was published"
        );
    }
    assert_eq!(child.try_wait().unwrap(), None);
    std::fs::write(folder.path().join("objects.yaml"), healthy().text()).unwrap();
    let rest = std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let output = child.wait_with_output().unwrap();
    rest.join().unwrap().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(!stdout.contains("failing"), "{stdout}");
}

#[test]
fn unreachable_api_server_is_one_red_line() {
    let kubeconfig = Kubeconfig::of_closed_port();
    for (flag, message) in [
        (kubeconfig.flag(), "onnection refused"),
        (
            "--kubeconfig=/nonexistent/kubeconfig".to_owned(),
            "/nonexistent/kubeconfig",
        ),
    ] {
        let flag = flag.as_str();
        for flags in [&[flag][..], &[flag, "--direct"]] {
            let (checkup, code) = checkup(flags);
            let items = checkup["items"].as_array().unwrap().iter();
            let failing: Vec<_> = items.filter(|one| one["state"] == "failing").collect();
            assert_eq!((code, failing.len()), (Some(1), 1), "{checkup:#}");
            let found = finding(&checkup, "api-server");
            let start = "failing: cannot reach the API server: ";
            assert!(
                found.starts_with(start) && found.contains(message),
                "{found}"
            );
        }
    }
}

#[test]
fn missing_kubeconfig_outside_a_pod_is_one_red_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = global_dns(&["check"]);
    command.env("HOME", folder.path());
    command
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST");
    let ended = run(&mut command);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = "cannot reach the API server: cannot read the kubeconfig at its default location";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);
}

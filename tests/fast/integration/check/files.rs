//! `check` with files.

use serde_json::Value;
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
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(link("east"))
        .with(link("west"))
}

fn link(cluster: &str) -> Value {
    let name = format!("link-to-{cluster}");
    objects::link("linkerd-multicluster", &name, cluster)
}

#[test]
fn objects_of_files_fail_only_if_something_is_wrong() {
    let ambiguous = mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]);
    for (objects, code, is_failing) in [(healthy(), 0, false), (healthy().with(ambiguous), 1, true)]
    {
        let (_folder, file) = file_of(&objects.text());
        let ended = run_global_dns(&["check", &file]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(code), ""));
        let stdout = &ended.stdout;
        assert_eq!(stdout.contains("short-name"), is_failing, "{stdout}");
        assert_eq!(stdout.contains("failing"), is_failing, "{stdout}");
    }
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
    let line = "cannot reach the API server: cannot read the kubeconfig ~/.kube/config";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);
}

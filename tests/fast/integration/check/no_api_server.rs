//! `check` without an API server.

use support::commands::global_dns;
use support::kubeconfig::Kubeconfig;
use support::process::run;

use super::{checkup, finding};

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

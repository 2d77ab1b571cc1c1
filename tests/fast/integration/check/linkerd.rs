//! `check` as Linkerd's CLI runs it: by the name of an extension, with the flags of `linkerd check`.

use std::os::unix::process::CommandExt as _;

use serde_json::{Value, json};
use support::commands::global_dns;
use support::kubeconfig::Kubeconfig;
use support::objects::{Manifest, mirror, objects};
use support::process::{ProcessOutput, run};
use support::server::Server;

/// What `linkerd check` passes without a flag, and one that it may pass in the future.
const FLAGS: [&str; 8] = [
    "check",
    "--as-group=[]",
    "--linkerd-namespace=linkerd",
    "--verbose=false",
    "--proxy=false",
    "--wait=5m0s",
    "--new=flag",
    "--output=json",
];

fn linkerd(arguments: &[&str], server: &str) -> ProcessOutput {
    let mut command = global_dns(arguments);
    command.arg0("/usr/local/bin/linkerd-globaldns");
    run(command.env("GLOBAL_DNS_SERVER", server))
}

/// Returns the exit code and what Linkerd reads.
fn read(ended: &ProcessOutput) -> (Option<i32>, Value) {
    (ended.code, serde_json::from_str(&ended.stdout).unwrap())
}

#[test]
fn linkerd_runs_the_extension_in_clusters_with_its_label() {
    let (code, metadata) = read(&linkerd(&["_extension-metadata"], ""));
    let expected = json!({"name": "linkerd-globaldns", "checks": "cluster"});
    assert_eq!((code, metadata), (Some(0), expected));
}

#[test]
fn only_what_is_wrong_with_the_server_is_an_error() {
    let healthy: Manifest =
        objects().with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]));
    let server = Server::with_objects(healthy.clone(), &[]);
    let (code, green) = read(&linkerd(&FLAGS, &server.api.to_string()));
    let text = green["categories"][0]["checks"][0]["description"].clone();
    assert!(text.as_str().unwrap().starts_with("server: "), "{text}");
    let checks = json!([{"description": text, "result": "success"}]);
    let category = json!({"categoryName": "linkerd-globaldns", "checks": checks});
    let expected = json!({"success": true, "categories": [category]});
    assert_eq!((code, green), (Some(0), expected));

    let ambiguous = mirror("shop", "db", "east").endpoint("db-0", &["10.96.1.9"]);
    let server = Server::with_objects(healthy.with(ambiguous), &[]);
    let (code, yellow) = read(&linkerd(&FLAGS, &server.api.to_string()));
    let check = &yellow["categories"][0]["checks"][1];
    let error = check["error"].as_str().unwrap();
    assert!(error.contains("Short name is ambiguous: ") && error.contains(" → "));
    let hint = "global-dns explain --kind short-name";
    let expected =
        json!({"description": "short-name", "hint": hint, "error": error, "result": "warning"});
    assert_eq!(
        (code, &yellow["success"], check),
        (Some(0), &json!(true), &expected)
    );

    // The flags of Linkerd choose the cluster.
    let kubeconfig = Kubeconfig::of_closed_port().flag();
    let flags = [&FLAGS[..], &[&kubeconfig]].concat();
    let (code, red) = read(&linkerd(&flags, &server.api.to_string()));
    let check = &red["categories"][0]["checks"][0];
    let named = [&check["description"], &check["result"]];
    assert_eq!(
        (code, &red["success"], named),
        (
            Some(1),
            &json!(false),
            [&json!("api-server"), &json!("error")]
        )
    );
}

//! `corefile`: its output is what the recipes in `coredns/` show, and its errors.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use support::process::{ProcessOutput, run_global_dns};
use support::repository::repository;

use super::api_server::ApiServer;

const CHART_LABELS: &str = "app.kubernetes.io/name=global-dns,app.kubernetes.io/component=server";
const SERVICES: &str = "/api/v1/services";

fn service(namespace: &str, name: &str, addresses: &[&str]) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"clusterIP": addresses[0], "clusterIPs": addresses, "ports": [{"port": 53}]},
    })
}

fn list(items: &[Value]) -> Value {
    json!({"kind": "ServiceList", "metadata": {"resourceVersion": "7"}, "items": items})
}

fn config_map(data: &Value) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": "x"}, "data": data})
}

fn config_map_path(name: &str) -> String {
    format!("/api/v1/namespaces/kube-system/configmaps/{name}")
}

/// Starts an API server with the Service of the chart and other objects.
fn cluster(objects: &[(String, Value)]) -> ApiServer {
    let services = list(&[service("global-dns", "global-dns", &["10.96.0.53"])]);
    let mut responses = BTreeMap::from([(SERVICES.to_owned(), services)]);
    responses.extend(objects.iter().cloned());
    ApiServer::start(responses)
}

/// Runs `corefile` with a cluster.
fn corefile(server: &ApiServer, flags: &[&str]) -> ProcessOutput {
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig);
    run_global_dns(&[&["corefile", &kubeconfig], flags].concat())
}

/// Returns a fenced block of a recipe.
fn block(file: &str, language: &str) -> String {
    let text = fs::read_to_string(repository("coredns").join(file)).unwrap();
    let start = format!("```{language}\n");
    let (_, rest) = text.split_once(&start).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

fn assert_output(ended: &ProcessOutput, expected: &str) {
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (Some(0), expected, "")
    );
}

fn stanza() -> String {
    let corefile = fs::read_to_string(repository("coredns/Corefile")).unwrap();
    let lines = corefile.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn recipes_show_the_output() {
    let empty = cluster(&[]);
    let run = |platform: &str| corefile(&empty, &["--platform", platform]);
    assert_output(&run("coredns"), &stanza());
    assert_output(&run("aks"), &block("aks.md", "yaml"));
    assert_output(&run("k3s"), &block("k3s.md", "yaml"));
    assert_output(&run("gke"), &block("gke.md", "yaml"));
    assert_output(&run("openshift"), &block("openshift.md", "yaml"));
    // Nothing but the two requests, and none that writes.
    let lookup = format!(
        "GET {SERVICES}?&labelSelector={}",
        CHART_LABELS
            .replace('/', "%2F")
            .replace('=', "%3D")
            .replace(',', "%2C")
    );
    let custom = format!("GET {}", config_map_path("coredns-custom"));
    let requests = empty.requests();
    assert_eq!(requests[..3], [lookup.clone(), lookup, custom]);
    assert!(
        requests.iter().all(|one| one.starts_with("GET ")),
        "{requests:?}"
    );
}

#[test]
fn recipe_of_coredns_shows_the_output_at_the_end_of_the_corefile() {
    let map: Value = serde_saphyr::from_str(&block("coredns.md", "yaml")).unwrap();
    let corefile = map["data"]["Corefile"].as_str().unwrap();
    assert!(
        corefile.ends_with(&format!("}}\n{}", stanza())),
        "{corefile}"
    );
}

#[test]
fn recipe_of_eks_shows_the_output_for_its_current_corefile() {
    let shown = block("eks.md", "yaml");
    let values: Value = serde_saphyr::from_str(&shown).unwrap();
    let with_stanza = values["corefile"].as_str().unwrap();
    let before = with_stanza.strip_suffix(&stanza()).unwrap();
    // A second run replaces the stanza.
    for current in [before, with_stanza] {
        let map = config_map(&json!({"Corefile": current}));
        let server = cluster(&[(config_map_path("coredns"), map)]);
        assert_output(&corefile(&server, &["--platform=eks"]), &shown);
    }
}

#[test]
fn recipe_of_the_node_cache_shows_the_output_with_its_bind_line() {
    let shown = block("nodelocaldns.md", "corefile");
    let current = "cluster.local:53 {\n    bind 169.254.20.10 10.96.0.10\n}\n";
    let map = config_map(&json!({"Corefile": current}));
    let server = cluster(&[(config_map_path("node-local-dns"), map)]);
    assert_output(&corefile(&server, &["--platform=nodelocaldns"]), &shown);
    let flags = ["--address=10.96.0.53", "--bind=169.254.20.10,10.96.0.10"];
    let ended = run_global_dns(&[&["corefile", "--platform=nodelocaldns"], &flags[..]].concat());
    assert_output(&ended, &shown);
}

#[test]
fn named_service_and_zones_are_used() {
    let path = "/api/v1/namespaces/dns/services".to_owned();
    let other = list(&[service("dns", "other", &["10.96.0.9"])]);
    let server = cluster(&[(path, other)]);
    let zones = [
        "--zone=a.test",
        "--zone=b.test.",
        "--reverse-zone=96.10.in-addr.arpa",
    ];
    let flags = [&["--platform=coredns", "--service=dns/other"], &zones[..]].concat();
    let block = |zone| {
        stanza()
            .replace("global", zone)
            .replace("10.96.0.53", "10.96.0.9")
    };
    let expected = ["a.test", "b.test", "96.10.in-addr.arpa"]
        .map(block)
        .concat();
    assert_output(&corefile(&server, &flags), &expected);
}

#[test]
fn given_address_needs_no_cluster_unless_the_current_object_is_needed() {
    let run = |platform: &str| {
        run_global_dns(&["corefile", "--address=10.96.0.53", "--platform", platform])
    };
    assert_output(&run("coredns"), &stanza());
    let aks = run("aks");
    assert_eq!((aks.code, aks.stdout), (Some(0), block("aks.md", "yaml")));
    let note =
        "note: the other entries of ConfigMap kube-system/coredns-custom are not in the output";
    assert!(aks.stderr.starts_with(note), "{}", aks.stderr);
    for platform in ["eks", "nodelocaldns"] {
        let ended = run(platform);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        assert!(ended.stderr.contains("set one of them"), "{}", ended.stderr);
    }
}

#[test]
fn given_address_is_checked_if_the_cluster_is_named() {
    let server = cluster(&[]);
    let good = corefile(&server, &["--platform=coredns", "--address=10.96.0.53"]);
    assert_output(&good, &stanza());
    let bad = corefile(&server, &["--platform=coredns", "--address=10.244.0.7"]);
    let expected = format!(
        "error: {}, context 'here' of {}: 10.244.0.7 is not the cluster IP of a Service of this cluster; omit --address \
         to find the address\n",
        server.url, server.kubeconfig
    );
    assert_eq!((bad.code, bad.stderr), (Some(1), expected));
}

#[test]
fn service_that_cannot_be_used_is_an_error_with_a_way_out() {
    let metrics = json!({
        "metadata": {"namespace": "dns", "name": "metrics"},
        "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 9153}]},
    });
    let one = service("dns", "one", &["10.96.0.53"]);
    let two = service("dns", "two", &["10.96.0.54"]);
    let dual = service("dns", "dual", &["10.96.0.53", "2001:db8::53"]);
    let headless = service("dns", "headless", &["None"]);
    for (services, parts) in [
        (
            vec![],
            ["no Service has the labels", "--service NAMESPACE/NAME"],
        ),
        (
            vec![metrics],
            ["no Service has the labels", "--service NAMESPACE/NAME"],
        ),
        (vec![one, two], ["dns/one, dns/two", "--service dns/one"]),
        (
            vec![dual],
            ["10.96.0.53 and 2001:db8::53", "--address 10.96.0.53"],
        ),
        (
            vec![headless],
            ["dns/headless has no cluster IP", "it is headless"],
        ),
    ] {
        let server = ApiServer::start(BTreeMap::from([(SERVICES.to_owned(), list(&services))]));
        let ended = corefile(&server, &["--platform=coredns"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        let place = format!("error: {}, context 'here' of ", server.url);
        for part in [&[place.as_str()][..], &parts].concat() {
            assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
        }
    }
}

#[test]
fn cluster_that_cannot_be_read_is_an_error_that_names_it() {
    let closed = ApiServer::closed();
    let ended = corefile(&closed, &["--platform=coredns"]);
    assert_eq!(ended.code, Some(1));
    let expected = format!("cannot list Services: cannot reach {}: ", closed.url);
    assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    assert_eq!(
        ended.stderr.matches(&closed.url).count(),
        1,
        "{}",
        ended.stderr
    );
    let ended = run_global_dns(&[
        "corefile",
        "--platform=coredns",
        "--kubeconfig=/no/such/file",
    ]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .stderr
            .contains("cannot read the kubeconfig /no/such/file: ")
    );
}

#[test]
fn wrong_usage_names_the_flag() {
    for (flags, part) in [
        (&[][..], "--platform <PLATFORM>"),
        (
            &["--platform=azure"],
            "possible values: coredns, aks, eks, gke, k3s, openshift, nodelocaldns",
        ),
        (
            &["--platform=aks", "--service=global-dns"],
            "'global-dns' has no '/'",
        ),
        (
            &["--platform=aks", "--address=10.96.0.53:53"],
            "without a port",
        ),
        (
            &["--platform=aks", "--address=127.0.0.1"],
            "no Service has this address",
        ),
        (
            &["--platform=aks", "--address=0.0.0.0"],
            "no Service has this address",
        ),
        (
            &["--platform=aks", "--address=10.96.0.53", "--service=a/b"],
            "cannot be used with",
        ),
    ] {
        let ended = run_global_dns(&[&["corefile"], flags].concat());
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(2), ""),
            "{flags:?}"
        );
        assert!(ended.stderr.contains(part), "{flags:?}: {}", ended.stderr);
    }
}

use serde_json::{Value, json};

use super::*;

fn pod(change: impl FnOnce(&mut Value)) -> ListedPod {
    let mut pod = json!({
        "metadata": {"namespace": "dns", "name": "global-dns-0", "labels": {
            "app.kubernetes.io/name": "global-dns", "app.kubernetes.io/instance": "dns",
            "helm.sh/chart": "global-dns-0.1.0"}},
        "spec": {"containers": [{"name": "global-dns", "args": ["serve"]}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

fn port(arguments: &[&str]) -> Option<u16> {
    let pod = pod(|pod| {
        let words = [&["serve"], arguments].concat();
        pod["spec"]["containers"][0]["args"] = json!(words);
    });
    Replica::of(&pod).map(|replica| replica.port)
}

#[test]
fn ready_pod_of_the_chart_is_a_replica() {
    let expected = Replica {
        namespace: "dns".to_owned(),
        pod: "global-dns-0".to_owned(),
        uid: String::new(),
        release: "dns".to_owned(),
        port: 9154,
    };
    assert_eq!(Replica::of(&pod(|_| ())), Some(expected.clone()));
    let renamed = pod(|pod| pod["metadata"]["labels"][NAME_LABEL] = json!("dns"));
    assert_eq!(Replica::of(&renamed), Some(expected));
}

#[test]
fn other_pods_and_pods_that_are_not_ready_are_no_replicas() {
    let labels = |name: &str, chart: &str| {
        let labels = json!({NAME_LABEL: name, CHART_LABEL: chart});
        pod(|pod| pod["metadata"]["labels"] = labels)
    };
    for other in [
        labels("argocd", "argo-cd-8.0.0"),
        labels("argocd", "global-dns-ui-1.0.0"),
        pod(|pod| pod["status"]["conditions"][0]["status"] = json!("False")),
        pod(|pod| pod["status"] = json!({})),
        pod(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T15:00:00Z")),
        pod(|pod| pod["metadata"]["labels"] = Value::Null),
    ] {
        assert_eq!(Replica::of(&other), None, "{other:?}");
    }
}

#[test]
fn port_is_that_of_the_flag_or_the_variable_if_it_is_on_loopback() {
    for (arguments, expected) in [
        (&["--ttl=5"][..], Some(9154)),
        (&["--api-listen=127.0.0.1:19154"], Some(19154)),
        (&["--api-listen", "[::1]:19154"], Some(19154)),
        (&["--api-listen=0.0.0.0:80"], Some(80)),
        (&["--api-listen=:80"], Some(80)),
        (&["--api-listen=localhost:80"], Some(80)),
        (&["--api-listen=192.0.2.1:80,127.0.0.1:81"], Some(81)),
        (
            &["--api-listen=192.0.2.1:80", "--api-listen=[::]:82"],
            Some(82),
        ),
        (&["--api-listen=192.0.2.1:80"], None),
        (&["--api-listen=$(POD_IP):80"], None),
    ] {
        assert_eq!(port(arguments), expected, "{arguments:?}");
    }
    let by_variable = pod(|pod| {
        let variable = json!([{"name": "GLOBAL_DNS_API_LISTEN", "value": "127.0.0.1:7"}]);
        pod["spec"]["containers"][0]["env"] = variable;
    });
    assert_eq!(Replica::of(&by_variable).map(|one| one.port), Some(7));
}

#[test]
fn container_that_serves_is_the_server() {
    let with_sidecar = pod(|pod| {
        let proxy = json!({"name": "proxy", "args": ["--api-listen=127.0.0.1:1"]});
        let server = json!({"name": "dns", "args": ["serve", "--api-listen=127.0.0.1:2"]});
        pod["spec"]["containers"] = json!([proxy, server]);
    });
    assert_eq!(Replica::of(&with_sidecar).map(|one| one.port), Some(2));
}

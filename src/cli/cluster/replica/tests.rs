use serde_json::json;

use super::*;

fn pod(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": "dns", "name": "global-dns-0"},
        "spec": {"containers": [{"name": "global-dns", "args": ["serve"]}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    change(&mut pod);
    pod
}

#[test]
fn ready_pod_of_the_chart_is_a_replica() {
    let expected = ReadyPod {
        namespace: "dns".to_owned(),
        pod: "global-dns-0".to_owned(),
        port: 9154,
    };
    assert_eq!(ReadyPod::of(&pod(|_| ())), Some(expected));
}

#[test]
fn pods_that_are_not_ready_are_no_replicas() {
    for other in [
        pod(|pod| pod["status"]["conditions"][0]["status"] = json!("False")),
        pod(|pod| pod["status"] = json!({})),
        pod(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T15:00:00Z")),
    ] {
        assert_eq!(ReadyPod::of(&other), None, "{other:?}");
    }
}

/// The chart names the port of the API on loopback. Another release may lack the name.
#[test]
fn port_is_the_container_port_with_the_name_of_the_api() {
    let port = |containers: Value| {
        let pod = pod(|pod| pod["spec"]["containers"] = containers);
        ReadyPod::of(&pod).map(|one| one.port)
    };
    let proxy = json!({"name": "proxy", "ports": [{"containerPort": 1}]});
    let admin = json!({"name": "admin", "containerPort": 9153});
    let api = json!({"name": "api", "containerPort": 19154, "protocol": "TCP"});
    let server = json!({"name": "global-dns", "ports": [admin, api]});
    assert_eq!(port(json!([proxy, server])), Some(19154));
    assert_eq!(port(json!([proxy])), Some(9154));
    assert_eq!(port(json!([])), Some(9154));
}

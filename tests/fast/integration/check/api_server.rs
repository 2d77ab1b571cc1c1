//! `check` with a simulated API server. The real one, with RBAC, is part of `tests/system/e2e`.

use serde_json::{Value, json};
use support::objects::{Gateway, Manifest, gateway_deployment, local, mirror, namespace};
use support::standin::{Behavior, StandIn};

use super::{checkup, finding};

/// Returns two mirrors as Linkerd writes them, and their slices as Kubernetes copies them.
fn mirrors() -> (Vec<Value>, Vec<Value>) {
    let db = mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .endpoint_behind(Gateway::Down, "db-1", &["10.96.1.2"]);
    let slices = vec![db.slice("db-0", true), db.slice("db-1", false)];
    (db.writes(), slices)
}

fn check_of(server: &StandIn) -> (Value, Option<i32>) {
    let kubeconfig = format!("--kubeconfig={}", server.kubeconfig.display());
    checkup(&[&kubeconfig, "--cluster-name=hub"])
}

#[test]
fn endpoints_of_mirrors_are_compared_with_slices() {
    let (written, slices) = mirrors();
    let server = StandIn::start(Behavior::Normal, &[written, slices.clone()].concat()).unwrap();
    let (checkup, code) = check_of(&server);
    let complete = "green: every mirror with Endpoints has an EndpointSlice";
    assert_eq!(finding(&checkup, "endpoint-slices"), complete);
    assert_eq!(code, Some(0), "{checkup:#}");
    let selector = "mirror.linkerd.io/mirrored-service=true";
    let mut requests = server.requests().into_iter();
    let of_endpoints = requests.find(|request| request.resource == "endpoints");
    assert_eq!(of_endpoints.unwrap().labels, selector);

    server.delete(&slices[1]);
    let (checkup, code) = check_of(&server);
    let one =
        "yellow: Endpoints of mirrors without an EndpointSlice (1 of 2): Endpoints/prod/db-1-east";
    assert_eq!(finding(&checkup, "endpoint-slices"), one);
    assert_eq!(code, Some(0), "{checkup:#}");

    server.delete(&slices[0]);
    let (checkup, code) = check_of(&server);
    let all = "red: Endpoints of mirrors without an EndpointSlice (2 of 2): Endpoints/prod/db-0-east, \
               Endpoints/prod/db-1-east";
    assert_eq!(finding(&checkup, "endpoint-slices"), all);
    assert_eq!(code, Some(1), "{checkup:#}");
}

#[test]
fn endpoints_are_not_needed_and_not_checked_without_permission() {
    let (written, slices) = mirrors();
    let server = StandIn::start(Behavior::Normal, &[written, slices].concat()).unwrap();
    server.forbid("endpoints");
    let (checkup, code) = check_of(&server);
    let sentence = "grey: EndpointSlices of mirrors: not checked, cannot list Endpoints: the API server returned 403: \
                    endpoints is forbidden: User \"nobody\" has no permission";
    assert_eq!(finding(&checkup, "endpoint-slices"), sentence);
    assert_eq!(code, Some(0), "{checkup:#}");
    let checks = checkup["checks"].as_array().unwrap();
    let mut own = checks
        .iter()
        .filter(|one| one["check"] == "endpoint-slices");
    let hint = own.next().unwrap()["hint"].as_str().unwrap();
    assert!(
        hint.starts_with("serve does not need this permission"),
        "{hint}"
    );
}

#[test]
fn gateway_is_checked_if_a_headless_service_is_exported() {
    const CACHE_TIMEOUT: &str = "config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout";
    let (written, slices) = mirrors();
    let server = StandIn::start(Behavior::Normal, &[written, slices].concat()).unwrap();
    let found = || {
        let (checkup, code) = check_of(&server);
        assert_eq!(code, Some(0), "{checkup:#}");
        finding(&checkup, "gateway-cache")
    };
    let none = "green: no headless Service is exported from here";
    assert_eq!(found(), none);
    // Nobody is asked for gateways.
    let mut requests = server.requests().into_iter();
    assert!(requests.all(|request| request.resource != "deployments"));
    let exported = local("prod", "web")
        .exported()
        .endpoint(Some("web-0"), "192.0.2.1", true);
    for object in Manifest::from(exported).0 {
        server.put(&object);
    }
    let start =
        "grey: Gateway address cache: not checked, there is no gateway in the namespaces of Links";
    assert_eq!(found(), start);
    server.put(&gateway_deployment(&json!({})));
    server.put(&namespace("linkerd-multicluster"));
    let keeps = "yellow: gateways that keep the address of a pod that is gone: \
                 Deployment/linkerd-multicluster/linkerd-gateway";
    assert_eq!(found(), format!("{keeps} (not set)"));
    server.put(&gateway_deployment(&json!({CACHE_TIMEOUT: "1s"})));
    assert_eq!(found(), format!("{keeps} (1s)"));
    server.put(&gateway_deployment(&json!({CACHE_TIMEOUT: "0s"})));
    let complete = "green: no gateway keeps the address of a pod that is gone";
    assert_eq!(found(), complete);
    // The annotation of the namespace counts if the pods have none.
    let mut without_annotations = gateway_deployment(&json!({}));
    without_annotations["spec"]["template"]["metadata"] = json!(null);
    server.put(&without_annotations);
    let mut annotated = namespace("linkerd-multicluster");
    annotated["metadata"]["annotations"] = json!({CACHE_TIMEOUT: "0s"});
    server.put(&annotated);
    assert_eq!(found(), complete);
    server.forbid("namespaces");
    let start = "grey: Gateway address cache: not checked, cannot list namespaces: the API server returned 403: ";
    assert!(found().starts_with(start), "{}", found());
    server.put(&gateway_deployment(&json!({CACHE_TIMEOUT: "0s"})));
    assert_eq!(found(), complete);
    server.forbid("deployments");
    let start = "grey: Gateway address cache: not checked, cannot list Deployments: the API server returned 403: ";
    assert!(found().starts_with(start), "{}", found());
}

//! Checks that no API server does: the mesh, security, selectors, permissions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::chart::listeners;
use crate::chart::values::with;
use support::helm::{NAMESPACE, RELEASE, Rendered, arguments, kind, name, template, template_of};

/// Every kubelet of a cluster must support the fields. Kubernetes has all addresses of a node only since 1.29.
#[test]
fn server_gets_the_addresses_of_its_pod_and_node() {
    for (kubernetes, node) in [
        ("1.27.0", "status.hostIP"),
        ("1.31.9", "status.hostIP"),
        ("1.32.0-eks-1", "status.hostIPs"),
    ] {
        let rendered = template_of(kubernetes, &with(json!({}))).unwrap();
        let workload = rendered.workload().unwrap();
        let container = &workload["spec"]["template"]["spec"]["containers"][0];
        let variables = container["env"].as_array().unwrap();
        let field = |name: &str| {
            let variable = variables.iter().find(|variable| variable["name"] == name);
            variable.map(|variable| &variable["valueFrom"]["fieldRef"]["fieldPath"])
        };
        assert_eq!(field("GLOBAL_DNS_POD_IPS"), Some(&json!("status.podIPs")));
        assert_eq!(
            field("GLOBAL_DNS_NODE_IPS"),
            Some(&json!(node)),
            "{kubernetes}"
        );
    }
}

/// A JSON pointer and the expected value.
type Expected<'v> = (&'v str, Value);

/// Each value of the chart sets the right field.
#[test]
fn values_set_the_right_fields() {
    let pod = "/spec/template/spec";
    let container = format!("{pod}/containers/0");
    let own = json!({"matchLabels": {"app.kubernetes.io/name": "global-dns", "app.kubernetes.io/instance": "global-dns",
        "app.kubernetes.io/component": "server"}});
    let at = |place: &str| format!("{container}{place}");
    let (env, liveness, readiness) = (at("/env/3"), at("/livenessProbe"), at("/readinessProbe"));
    let cases: &[(Value, &str, &[Expected<'_>])] = &[
        (
            json!({}),
            "Service",
            &[
                ("/spec/type", json!("ClusterIP")),
                ("/spec/externalTrafficPolicy", Value::Null),
            ],
        ),
        (
            json!({"service": {"type": "LoadBalancer", "loadBalancerIP": "192.0.2.53", "loadBalancerClass": "a/b",
                "loadBalancerSourceRanges": ["192.0.2.0/24"], "externalIPs": ["192.0.2.54"],
                "trafficDistribution": "PreferClose", "annotations": {"a": "b"}}}),
            "Service",
            &[
                ("/spec/type", json!("LoadBalancer")),
                ("/spec/loadBalancerIP", json!("192.0.2.53")),
                ("/spec/loadBalancerClass", json!("a/b")),
                ("/spec/loadBalancerSourceRanges", json!(["192.0.2.0/24"])),
                ("/spec/externalIPs", json!(["192.0.2.54"])),
                // Access control depends on the client's address.
                ("/spec/externalTrafficPolicy", json!("Local")),
                ("/spec/trafficDistribution", json!("PreferClose")),
                ("/metadata/annotations", json!({"a": "b"})),
            ],
        ),
        (
            json!({}),
            "Deployment",
            &[
                ("/metadata/annotations", Value::Null),
                ("/spec/revisionHistoryLimit", Value::Null),
                (
                    "/spec/strategy",
                    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
                ),
                ("/spec/template/spec/dnsPolicy", json!("Default")),
                ("/spec/template/spec/hostNetwork", Value::Null),
                (
                    "/spec/template/spec/terminationGracePeriodSeconds",
                    json!(25),
                ),
                ("/spec/template/spec/tolerations", Value::Null),
            ],
        ),
        (
            json!({"workloadAnnotations": {"a": "b"}, "revisionHistoryLimit": 0, "updateStrategy": {"type": "Recreate"},
                "hostNetwork": true, "dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.54"]},
                "terminationGracePeriodSeconds": 40, "podSecurityContext": {"runAsUser": 7},
                "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}, "livenessProbe": {"failureThreshold": 9},
                "readinessProbe": {"initialDelaySeconds": 4}, "extraEnv": [{"name": "A", "value": "b"}]}),
            "Deployment",
            &[
                ("/metadata/annotations", json!({"a": "b"})),
                ("/spec/revisionHistoryLimit", json!(0)),
                ("/spec/strategy", json!({"type": "Recreate"})),
                ("/spec/template/spec/hostNetwork", json!(true)),
                ("/spec/template/spec/dnsPolicy", json!("None")),
                (
                    "/spec/template/spec/dnsConfig",
                    json!({"nameservers": ["192.0.2.54"]}),
                ),
                (
                    "/spec/template/spec/terminationGracePeriodSeconds",
                    json!(40),
                ),
                (
                    "/spec/template/spec/securityContext",
                    json!({"runAsNonRoot": true, "runAsUser": 7, "seccompProfile": {"type": "RuntimeDefault"}}),
                ),
                (
                    "/spec/template/spec/containers/0/securityContext/capabilities",
                    json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
                ),
                (
                    &liveness,
                    json!({"httpGet": {"path": "/livez", "port": "admin"}, "periodSeconds": 10, "timeoutSeconds": 5,
                        "failureThreshold": 9}),
                ),
                (
                    &readiness,
                    json!({"httpGet": {"path": "/readyz", "port": "admin"}, "initialDelaySeconds": 4,
                        "periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 2}),
                ),
                (&env, json!({"name": "A", "value": "b"})),
            ],
        ),
        (
            json!({"topologySpreadConstraints": [
                {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
                {"maxSkew": 2, "topologyKey": "row", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {}}}]}),
            "Deployment",
            &[(
                "/spec/template/spec/topologySpreadConstraints",
                json!([
                    {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": own},
                    {"maxSkew": 2, "topologyKey": "row", "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": {}}}]),
            )],
        ),
        // On the node's network, a new pod cannot bind the port of a pod that still answers.
        (
            json!({"hostNetwork": true}),
            "Deployment",
            &[(
                "/spec/strategy/rollingUpdate",
                json!({"maxSurge": 0, "maxUnavailable": 1}),
            )],
        ),
        // CoreDNS runs there too. With internalTrafficPolicy Local, only a pod on its own node answers it.
        (
            json!({"kind": "DaemonSet"}),
            "DaemonSet",
            &[(
                "/spec/template/spec/tolerations",
                json!([{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
                    {"key": "CriticalAddonsOnly", "operator": "Exists"}]),
            )],
        ),
        (
            json!({"kind": "DaemonSet", "tolerations": []}),
            "DaemonSet",
            &[("/spec/template/spec/tolerations", Value::Null)],
        ),
    ];
    for (values, of_kind, expected) in cases {
        let rendered = template(&with(values.clone())).unwrap();
        let mut objects = rendered.all(of_kind);
        let object = objects.find(|object| name(object) == RELEASE).unwrap();
        for (pointer, expected) in *expected {
            let found = object.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, expected, "{values}: {of_kind} {pointer}");
        }
    }
}

/// Prometheus must find the pods by annotations or by the operator's objects, but not by both.
#[test]
fn pods_are_scraped_once() {
    let found = |prefix: &str, values: Value| -> Value {
        let rendered = template(&with(values)).unwrap();
        let annotations =
            &rendered.workload().unwrap()["spec"]["template"]["metadata"]["annotations"];
        let annotations = annotations.as_object().unwrap().iter();
        let chosen =
            annotations.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?, value)));
        chosen
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    };
    let annotations = |values| found("prometheus.io/", values);
    let at = |port: &str| json!({"scrape": "true", "port": port, "path": "/metrics"});
    assert_eq!(annotations(json!({})), at("9153"));
    let admin = json!({"adminListen": ["0.0.0.0:8080"]});
    assert_eq!(annotations(admin), at("8080"));
    let own = json!({"podAnnotations": {"prometheus.io/scrape": "false"}});
    assert_eq!(annotations(own)["scrape"], "false");
    for without in [
        json!({"scrapeAnnotations": false}),
        json!({"serviceMonitor": {"enabled": true}}),
    ] {
        assert_eq!(annotations(without), json!({}));
    }
}

/// Nothing is kept on disk.
#[test]
fn pod_has_no_volume_of_its_own() {
    let rendered = template(&with(json!({}))).unwrap();
    let pod = &rendered.workload().unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"], Value::Null);
    assert_eq!(pod["containers"][0]["volumeMounts"], Value::Null);
}

#[test]
fn external_services_do_not_expose_metrics() {
    for (service, is_outside) in [
        (json!({}), false),
        (json!({"type": "NodePort"}), true),
        (json!({"type": "LoadBalancer"}), true),
        (json!({"externalIPs": ["192.0.2.53"]}), true),
    ] {
        let rendered = template(&with(json!({"service": service}))).unwrap();
        let metrics = json!("metrics");
        let port = has_port(rendered.service().unwrap(), "name", &metrics);
        assert_eq!(port.is_null(), is_outside, "{service}");
        let others: Vec<&Value> = rendered
            .all("Service")
            .filter(|other| name(other) != RELEASE)
            .collect();
        assert_eq!(others.len(), usize::from(is_outside), "{service}");
        for other in others {
            let spec = &other["spec"];
            assert!(spec["type"].is_null() && spec["externalIPs"].is_null());
            assert!(!has_port(other, "name", &metrics).is_null());
        }
    }
}

#[test]
fn common_labels_are_on_every_object_and_not_in_selectors() {
    let given = json!({
        "commonLabels": {"team": "dns", "app.kubernetes.io/component": "not-this"},
        "commonAnnotations": {"owner": "dns", "linkerd.io/inject": "enabled", "helm.sh/hook": "pre-install"},
        "podLabels": {"team": "pods"}, "service": {"annotations": {"owner": "network"}}, "namespaces": ["prod"],
        "serviceMonitor": {"enabled": true}, "alerts": {"enabled": true}, "dashboard": {"enabled": true},
    });
    let rendered = template(&with(given)).unwrap();
    let plain = template(&with(json!({"namespaces": ["prod"]}))).unwrap();
    assert!(rendered.objects.len() > plain.objects.len());
    for object in &rendered.objects {
        let title = format!("{} {}", kind(object), name(object));
        let is_check = kind(object) == "Pod";
        let metadata = &object["metadata"];
        assert_eq!(metadata["labels"]["team"], "dns", "{title}");
        let component = if is_check { "check" } else { "server" };
        let label = "app.kubernetes.io/component";
        assert_eq!(metadata["labels"][label], component, "{title}");
        // The annotation of one object takes precedence.
        let owner = if kind(object) == "Service" {
            "network"
        } else {
            "dns"
        };
        let annotations = &metadata["annotations"];
        assert_eq!(annotations["owner"], owner, "{title}");
        if is_check {
            assert_eq!(annotations["linkerd.io/inject"], "disabled");
            assert_eq!(annotations["helm.sh/hook"], "test");
        }
    }
    let [workload, before] = [&rendered, &plain].map(|rendered| rendered.workload().unwrap());
    let template = &workload["spec"]["template"]["metadata"];
    assert_eq!(template["labels"]["team"], "pods");
    assert_eq!(template["annotations"]["linkerd.io/inject"], "disabled");
    // The selector of a workload is immutable.
    assert_eq!(workload["spec"]["selector"], before["spec"]["selector"]);
    let selectors = [&rendered, &plain].map(|rendered| &rendered.service().unwrap()["spec"]);
    assert_eq!(selectors[0]["selector"], selectors[1]["selector"]);
}

/// Checks invariants of an installation with any values.
pub fn check(case: &str, rendered: &Rendered) {
    let workload = rendered.workload().unwrap();
    let template = &workload["spec"]["template"];
    for object in &rendered.objects {
        let is_cluster_wide = kind(object).starts_with("Cluster");
        let namespace = object["metadata"]["namespace"].as_str();
        assert_eq!(
            namespace.is_none(),
            is_cluster_wide,
            "{case}: {}",
            name(object)
        );
        assert!(name(object).len() <= 63, "{case}: {}", name(object));
    }
    for pod in rendered.pods() {
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(
            annotations["linkerd.io/inject"],
            "disabled",
            "{case}: {}",
            name(&pod)
        );
        let container = &pod["spec"]["containers"][0];
        // The image has a user, and some platforms assign another user to each namespace.
        let user = &pod["spec"]["securityContext"]["runAsUser"];
        assert_eq!(user.is_null(), case != "a custom user", "{case}");
        assert_eq!(
            container["securityContext"]["readOnlyRootFilesystem"], true,
            "{case}"
        );
        assert_eq!(
            container["resources"]["limits"]["cpu"],
            Value::Null,
            "{case}"
        );
    }
    // Every selector matches the pods of the server, and no selector matches the pod of `helm test`.
    let selector = &workload["spec"]["selector"]["matchLabels"];
    let policies = rendered
        .all("NetworkPolicy")
        .map(|p| &p["spec"]["podSelector"]["matchLabels"]);
    let budgets = rendered
        .all("PodDisruptionBudget")
        .map(|b| &b["spec"]["selector"]["matchLabels"]);
    let services = rendered
        .all("Service")
        .map(|service| &service["spec"]["selector"]);
    for other in policies.chain(budgets).chain(services) {
        assert_eq!(other, selector, "{case}");
    }
    assert!(
        is_within(selector, &template["metadata"]["labels"]),
        "{case}"
    );
    let test = rendered.only("Pod").unwrap();
    assert!(
        !is_within(selector, &test["metadata"]["labels"]),
        "{case}: the selector of the server matches the test pod"
    );
    for monitor in rendered.all("ServiceMonitor") {
        let selector = &monitor["spec"]["selector"]["matchLabels"];
        let endpoint = &monitor["spec"]["endpoints"][0];
        let is_scraped = |service: &&Value| {
            is_within(selector, &service["metadata"]["labels"])
                && !has_port(service, "name", &endpoint["port"]).is_null()
        };
        let scraped: Vec<&Value> = rendered.all("Service").filter(is_scraped).collect();
        assert_eq!(scraped.len(), 1, "{case}: {scraped:?}");
        // Alerts and dashboard select this job.
        let job = json!([{"targetLabel": "job", "replacement": name(workload)}]);
        assert_eq!(endpoint["relabelings"], job, "{case}");
    }
    listeners::check(case, rendered);
    check_life_cycle(case, rendered, &template["spec"]);
    check_permissions(case, rendered);
}

/// Checks the grace period and the probes of a pod.
fn check_life_cycle(case: &str, rendered: &Rendered, pod: &Value) {
    let arguments = rendered.arguments().unwrap();
    let grace = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("--grace="));
    let grace: u64 = grace.unwrap().strip_suffix('s').unwrap().parse().unwrap();
    let given = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(
        given >= grace + 10,
        "{case}: terminationGracePeriodSeconds is {given} with a grace period of {grace} s"
    );
    let container = &pod["containers"][0];
    for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        let asked = &container[probe]["httpGet"];
        assert_eq!(asked["path"], path, "{case}");
        assert!(
            !has_port(container, "name", &asked["port"]).is_null(),
            "{case}"
        );
    }
}

/// The only permissions are to list and watch Links, and to list Leases, in the namespaces of Linkerd's controllers.
#[test]
fn role_for_links_is_in_each_of_their_namespaces() {
    for (values, expected) in [
        (json!({}), &["linkerd-multicluster"][..]),
        (json!({"links": {"namespace": "links"}}), &["links"]),
        (
            json!({"links": {"namespace": ["multicluster", "links"]}}),
            &["links", "multicluster"],
        ),
        // With a Role for Services in one of them.
        (
            json!({"namespaces": ["links", "prod"], "links": {"namespace": ["links"]}}),
            &["links"],
        ),
        (json!({"links": {"enabled": false}}), &[]),
        (
            json!({"namespaces": ["links"], "links": {"enabled": false, "namespace": "links"}}),
            &[],
        ),
        (json!({"rbac": {"create": false}}), &[]),
        (json!({"source": {"files": ["/objects.yaml"]}}), &[]),
    ] {
        let rendered = template(&with(values.clone())).unwrap();
        let permitted = |resource: &str| -> Vec<(&Value, &str)> {
            let rules = rendered.objects.iter().flat_map(|object| {
                let rules = object["rules"].as_array().into_iter().flatten();
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
                rules.map(move |rule| (rule, namespace))
            });
            let has = |rule: &Value| rule["resources"] == json!([resource]);
            let found = rules.filter(|(rule, _)| has(rule));
            let mut found: Vec<_> = found
                .map(|(rule, namespace)| (&rule["verbs"], namespace))
                .collect();
            found.sort_by_key(|(_, namespace)| *namespace);
            found
        };
        let verbs = json!(["list", "watch"]);
        let links: Vec<_> = expected.iter().map(|name| (&verbs, *name)).collect();
        assert_eq!(permitted("links"), links, "{values}");
        let verbs = json!(["list"]);
        let leases: Vec<_> = expected.iter().map(|name| (&verbs, *name)).collect();
        assert_eq!(permitted("leases"), leases, "{values}");
    }
}

/// Checks the roles of the pod's account: `list` and `watch` on two kinds, and a Role for Links
/// and Leases. There is none without watches of this API server.
fn check_permissions(case: &str, rendered: &Rendered) {
    let rules = vec![
        json!({"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}),
    ];
    let links = vec![
        json!({"apiGroups": ["multicluster.linkerd.io"], "resources": ["links"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list"]}),
    ];
    let all = |suffix: &str| -> Vec<&Value> {
        let objects = rendered.objects.iter();
        let mut found: Vec<&Value> = objects
            .filter(|object| kind(object).ends_with(suffix))
            .collect();
        found.sort_by_key(|object| (object["metadata"]["namespace"].as_str(), name(object)));
        found
    };
    let (roles, bindings) = (all("Role"), all("RoleBinding"));
    assert_eq!(roles.len(), bindings.len(), "{case}");
    let pod = &rendered.workload().unwrap()["spec"]["template"]["spec"];
    for (role, binding) in roles.iter().zip(bindings) {
        let expected = match is_for_links(role) {
            true => &links,
            false => &rules,
        };
        assert_eq!(role["rules"], Value::from(expected.clone()), "{case}");
        assert_eq!(
            binding["metadata"]["namespace"], role["metadata"]["namespace"],
            "{case}"
        );
        assert_eq!(binding["roleRef"]["kind"], role["kind"], "{case}");
        assert_eq!(
            binding["roleRef"]["name"], role["metadata"]["name"],
            "{case}"
        );
        let account = json!([{"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": NAMESPACE}]);
        assert_eq!(binding["subjects"], account, "{case}");
    }
    let arguments = arguments(&rendered.workload().unwrap()["spec"]["template"]).unwrap();
    let of = |flag: &str| -> BTreeSet<&str> {
        let values = arguments.iter().filter_map(|a| a.strip_prefix(flag));
        values.flat_map(|values| values.split(',')).collect()
    };
    let elsewhere = !of("--file=").is_empty() || !of("--kubeconfig=").is_empty();
    assert_eq!(pod["automountServiceAccountToken"], !elsewhere, "{case}");
    if elsewhere || case == "an existing service account" {
        assert!(roles.is_empty(), "{case}: {roles:?}");
        return;
    }
    let (links, others): (Vec<&Value>, Vec<&Value>) =
        roles.iter().copied().partition(|role| is_for_links(role));
    for (roles, flag, least) in [
        (links, "--links-namespace=", 0),
        (others, "--namespace=", 1),
    ] {
        let namespaces = roles.iter().map(|role| &role["metadata"]["namespace"]);
        let namespaces: BTreeSet<&str> = namespaces.filter_map(Value::as_str).collect();
        assert_eq!(namespaces, of(flag), "{case}");
        assert_eq!(roles.len(), of(flag).len().max(least), "{case}");
    }
}

/// Returns whether a role is the one in a namespace of Links.
fn is_for_links(role: &Value) -> bool {
    name(role).ends_with("-links")
}

/// Returns the port of an object with this value of a field, or null.
pub fn has_port<'o>(object: &'o Value, field: &str, value: &Value) -> &'o Value {
    let of_spec = object["spec"]["ports"].as_array();
    let ports = of_spec.or_else(|| object["ports"].as_array());
    let mut ports = ports.unwrap().iter();
    ports
        .find(|port| port[field] == *value)
        .unwrap_or(&Value::Null)
}

fn is_within(selector: &Value, labels: &Value) -> bool {
    let mut wanted = selector.as_object().unwrap().iter();
    wanted.all(|(key, value)| labels[key] == *value)
}

//! Checks that no API server does: the mesh, security, selectors, permissions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::chart::listeners;
use crate::chart::values::with;
use support::helm::{NAMESPACE, RELEASE, Rendered, arguments, kind, name, template_of};

/// Soft anti-affinities of a pod.
const SOFT: &str = "POD/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution";

/// Values, perhaps after a version of Kubernetes, the kind of an object, a JSON pointer, and what is there. `POD` is the pod of a workload,
/// `META` its metadata, `OWN` its container, and `SOFT` its soft anti-affinities.
const FIELDS: &str = r#"
{}                                             | Service    | /spec/type                             | ClusterIP
{}                                             | Service    | /spec/externalTrafficPolicy            | null
# Access control depends on the client's address.
{service: {type: LoadBalancer}}                | Service    | /spec/externalTrafficPolicy            | Local
{service: {externalIPs: [192.0.2.54]}}         | Service    | /spec/externalIPs                      | [192.0.2.54]
{}                                             | Deployment | /spec/strategy/rollingUpdate/maxSurge  | 1
{updateStrategy: {type: Recreate}}             | Deployment | /spec/strategy                         | {type: Recreate}
{}                                             | Deployment | POD/dnsPolicy                          | Default
{}                                             | Deployment | POD/subdomain                          | global-dns
{}                                             | Deployment | POD/terminationGracePeriodSeconds      | 30
# Nothing is kept on disk.
{}                                             | Deployment | POD/volumes                            | null
{}                                             | Deployment | OWN/volumeMounts                       | null
{podSecurityContext: {runAsUser: 7}}           | Deployment | POD/securityContext/runAsNonRoot       | true
{securityContext: {capabilities: {add: [A]}}}  | Deployment | OWN/securityContext/capabilities       | {drop: [ALL], add: [A]}
{extraEnv: [{name: A, value: b}]}              | Deployment | OWN/env/4                              | {name: A, value: b}
{extraEnv: [{name: A, value: b}]}              | Pod        | /spec/containers/0/env/1               | {name: A, value: b}
{priorityClassName: "12"}                      | Deployment | POD/priorityClassName                  | "12"
{tls: {secretName: "34"}}                      | Deployment | POD/volumes/0/secret/secretName        | "34"
# CoreDNS runs there, too. With internalTrafficPolicy Local, only a pod on its own node answers it.
{kind: DaemonSet}                              | DaemonSet  | POD/tolerations/1/key                  | CriticalAddonsOnly
{}                                             | Deployment | POD/tolerations                        | null
# A node without the label of one soft constraint counts for none of them, so zones are no soft constraint.
{}                                             | Deployment | POD/topologySpreadConstraints/0/topologyKey | kubernetes.io/hostname
{}                                             | Deployment | POD/topologySpreadConstraints/1        | null
{}                                             | Deployment | SOFT/0/podAffinityTerm/topologyKey     | topology.kubernetes.io/zone
{topologySpread: {zones: DoNotSchedule}}       | Deployment | POD/topologySpreadConstraints/1/topologyKey | topology.kubernetes.io/zone
{topologySpread: {zones: DoNotSchedule}}       | Deployment | POD/affinity                           | null
{topologySpread: {nodes: "", zones: ""}}       | Deployment | POD/topologySpreadConstraints          | null
{kind: DaemonSet}                              | DaemonSet  | POD/affinity                           | null
# The affinity of the values stays.
{affinity: {nodeAffinity: {a: b}}}             | Deployment | POD/affinity/nodeAffinity              | {a: b}
{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}} | Deployment | SOFT/0/weight | 1
{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}} | Deployment | SOFT/1/weight | 50
# Prometheus finds the pods by annotations or by the operator's objects, but not by both.
{}                                             | Deployment | META/annotations/prometheus.io~1port   | "9153"
{scrapeAnnotations: false}                     | Deployment | META/annotations/prometheus.io~1scrape | null
{serviceMonitor: {enabled: true}}              | Deployment | META/annotations/prometheus.io~1scrape | null
{podAnnotations: {prometheus.io/scrape: "no"}} | Deployment | META/annotations/prometheus.io~1scrape | "no"
# Nobody but a port-forward reaches an API with other hosts, unless the values say so.
{api: {hosts: [a.example]}}                    | NetworkPolicy | /spec/ingress/2                     | null
{api: {hosts: [a.example]}, networkPolicy: {apiFrom: [{podSelector: {}}]}} | NetworkPolicy | /spec/ingress/2/from | [{podSelector: {}}]
# An affinity with `matchLabelKeys` needs Kubernetes 1.31.
1.30.9 {}                                      | Deployment | SOFT/0/podAffinityTerm/matchLabelKeys  | null
1.31.0 {}                                      | Deployment | SOFT/0/podAffinityTerm/matchLabelKeys  | [pod-template-hash]
# Every kubelet of a cluster must support the fields. Kubernetes has all addresses of a node only since 1.29.
{}                                             | Deployment | OWN/env/1 | {name: GLOBAL_DNS_POD_IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
1.27.0 {}                                      | Deployment | OWN/env/2 | {name: GLOBAL_DNS_NODE_IPS, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
1.32.0-eks-1 {}                                | Deployment | OWN/env/2 | {name: GLOBAL_DNS_NODE_IPS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}
# Commands find the API by the name of its port.
{}                                             | Deployment | OWN/ports/3/name                       | api
"#;

#[test]
fn values_set_the_right_fields() {
    for line in FIELDS.lines().filter(|line| line.contains(" | ")) {
        let fields: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [values, of_kind, pointer, expected] = fields[..] else {
            panic!("{line}")
        };
        let start = values.find('{').unwrap();
        let kubernetes = Some(values[..start].trim()).filter(|version| !version.is_empty());
        let values: Value = serde_saphyr::from_str(&values[start..]).unwrap();
        let expected: Value = serde_saphyr::from_str(expected).unwrap();
        let pointer = pointer
            .replace("SOFT", SOFT)
            .replace("META", "/spec/template/metadata")
            .replace("OWN", "POD/containers/0")
            .replace("POD", "/spec/template/spec");
        let rendered = template_of(kubernetes.unwrap_or("1.33.0"), &with(values)).unwrap();
        let mut objects = rendered.all(of_kind);
        let is_meant = |object: &&Value| kind(object) == "Pod" || name(object) == RELEASE;
        let object = objects.find(is_meant).unwrap();
        let found = object.pointer(&pointer).unwrap_or(&Value::Null);
        assert_eq!(*found, expected, "{line}");
    }
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
        let labels = &object["metadata"]["labels"];
        let component = match kind(object) {
            "Pod" => "check",
            _ => "server",
        };
        assert_eq!(labels["app.kubernetes.io/component"], component, "{case}");
        let has_common = labels["example.com/team"] == "dns";
        assert_eq!(has_common, case.contains("common labels"), "{case}");
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
        assert_eq!(user.is_null(), !case.contains("another user"), "{case}");
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
    // Every selector matches the pods of the server, and no selector matches the pod of `helm test`. It is immutable, so it
    // must not depend on other values.
    let selector = &workload["spec"]["selector"]["matchLabels"];
    let own = ["name", "instance", "component"].map(|label| format!("app.kubernetes.io/{label}"));
    let own = json!({&own[0]: RELEASE, &own[1]: RELEASE, &own[2]: "server"});
    assert_eq!(*selector, own, "{case}");
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
    for service in rendered.all("Service") {
        let spec = &service["spec"];
        let is_inside = [&Value::Null, &json!("ClusterIP")].contains(&&spec["type"]);
        let has_metrics = !has_port(service, "name", &json!("metrics")).is_null();
        let is_exposed = !is_inside || !spec["externalIPs"].is_null();
        assert!(!(has_metrics && is_exposed), "{case}: metrics are exposed");
    }
    listeners::check(case, rendered);
    check_probes(case, rendered.container().unwrap());
    check_permissions(case, rendered);
}

/// Checks the probes of a pod.
fn check_probes(case: &str, container: &Value) {
    for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        let asked = &container[probe]["httpGet"];
        assert_eq!(asked["path"], path, "{case}");
        let port = has_port(container, "name", &asked["port"]);
        assert_eq!(port["containerPort"], 9153, "{case}");
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
            .filter(|object| kind(object).ends_with(suffix) && !name(object).ends_with("-viewer"))
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
    let elsewhere = arguments(rendered.container().unwrap()).unwrap().len() > 1;
    assert_eq!(pod["automountServiceAccountToken"], !elsewhere, "{case}");
    if elsewhere || case == "an existing service account" {
        assert!(roles.is_empty(), "{case}: {roles:?}");
        return;
    }
    let (links, others): (Vec<&Value>, Vec<&Value>) =
        roles.iter().copied().partition(|role| is_for_links(role));
    let settings = rendered.settings().unwrap();
    let of_links = match &settings["links"] {
        own if own["enabled"] == false => json!([]),
        own if own["namespaces"].is_null() => json!(["linkerd-multicluster"]),
        own => own["namespaces"].clone(),
    };
    for (roles, expected, least) in [(links, &of_links, 0), (others, &settings["namespaces"], 1)] {
        let namespaces = roles.iter().map(|role| &role["metadata"]["namespace"]);
        let namespaces: BTreeSet<&str> = namespaces.filter_map(Value::as_str).collect();
        let expected = expected.as_array().into_iter().flatten();
        let expected: BTreeSet<&str> = expected.filter_map(Value::as_str).collect();
        assert_eq!(namespaces, expected, "{case}");
        assert_eq!(roles.len(), expected.len().max(least), "{case}");
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

//! What no API server checks: the mesh, security, selectors, ports, permissions.

use serde_json::{Value, json};

use crate::helm::{NAMESPACE, Rendered, arguments, kind, name, template, template_of};
use crate::values::with;

/// Every kubelet that an API server admits has to know the fields: all addresses of a node only since 1.29.
#[test]
#[ignore = "needs Helm"]
fn the_server_knows_the_addresses_of_its_pod_and_node() {
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

/// Checks what holds whatever the values are.
pub fn check(case: &str, rendered: &Rendered) {
    let workload = rendered.workload().unwrap();
    let template = &workload["spec"]["template"];
    let service = rendered.only("Service").unwrap();
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
        assert_eq!(
            pod["spec"]["securityContext"]["runAsUser"],
            Value::Null,
            "{case}"
        );
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
    // The server's pods are selected, by all who select them, and the pod of `helm test` is not.
    let selector = &workload["spec"]["selector"]["matchLabels"];
    let policies = rendered
        .all("NetworkPolicy")
        .map(|p| &p["spec"]["podSelector"]["matchLabels"]);
    let budgets = rendered
        .all("PodDisruptionBudget")
        .map(|b| &b["spec"]["selector"]["matchLabels"]);
    for other in policies
        .chain(budgets)
        .chain([&service["spec"]["selector"]])
    {
        assert_eq!(other, selector, "{case}");
    }
    assert!(
        is_within(selector, &template["metadata"]["labels"]),
        "{case}"
    );
    let test = rendered.only("Pod").unwrap();
    assert!(
        !is_within(selector, &test["metadata"]["labels"]),
        "{case}: the test is a server"
    );
    for monitor in rendered.all("ServiceMonitor") {
        let selector = &monitor["spec"]["selector"]["matchLabels"];
        assert!(
            is_within(selector, &service["metadata"]["labels"]),
            "{case}"
        );
        assert!(
            !has_port(service, "name", &monitor["spec"]["endpoints"][0]["port"]).is_null(),
            "{case}"
        );
    }
    check_ports(case, rendered, service, &template["spec"]["containers"][0]);
    check_life(case, rendered, &template["spec"]);
    check_permissions(case, rendered);
}

/// Every port of the Service leads to a port of the container, which is one that the server listens on.
fn check_ports(case: &str, rendered: &Rendered, service: &Value, container: &Value) {
    let arguments = rendered.arguments().unwrap();
    let listened = |flag: &str, default: u64| -> Vec<u64> {
        let given = arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix(flag));
        let ports: Vec<u64> = given
            .map(|a| a.rsplit(':').next().unwrap().parse().unwrap())
            .collect();
        if ports.is_empty() {
            vec![default]
        } else {
            ports
        }
    };
    let policy = rendered.all("NetworkPolicy").next();
    let ports = service["spec"]["ports"].as_array().unwrap();
    for port in ports {
        let container_port = has_port(container, "name", &port["targetPort"]);
        assert_eq!(
            container_port["protocol"], port["protocol"],
            "{case}: {port}"
        );
        let number = container_port["containerPort"].as_u64().unwrap();
        let (flag, default, public) = match port["name"].as_str().unwrap() {
            "dns" | "dns-tcp" => ("--listen=", 5353, 53),
            "dns-tls" => ("--tls-listen=", 0, 853),
            "dns-https" => ("--https-listen=", 0, 443),
            "metrics" => ("--admin-listen=", 9153, 9153),
            other => panic!("{case}: port {other}"),
        };
        assert!(
            listened(flag, default).contains(&number),
            "{case}: {port} leads to {number}"
        );
        assert_eq!(port["port"], public, "{case}: {port}");
        if let Some(policy) = policy {
            let rules = policy["spec"]["ingress"].as_array().unwrap();
            let allowed = rules
                .iter()
                .flat_map(|rule| rule["ports"].as_array().unwrap());
            let wanted = json!({"port": number, "protocol": port["protocol"]});
            assert!(
                allowed.clone().any(|allowed| *allowed == wanted),
                "{case}: {wanted} is shut out"
            );
        }
    }
    let is_encrypted = |flag| arguments.iter().any(|argument| argument.starts_with(flag));
    let encrypted = ["--tls-listen=", "--https-listen="].map(is_encrypted);
    let expected = 3 + encrypted.iter().filter(|is| **is).count();
    assert_eq!(ports.len(), expected, "{case}: {ports:?}");
}

/// A pod is given the time that it wants to end in, and is asked the right questions.
fn check_life(case: &str, rendered: &Rendered, pod: &Value) {
    let arguments = rendered.arguments().unwrap();
    let grace = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("--grace="));
    let grace: u64 = grace.unwrap().strip_suffix('s').unwrap().parse().unwrap();
    let given = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(
        given >= grace + 10,
        "{case}: {given} s for a grace of {grace} s"
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

/// What a flag reads from a Secret is mounted where the flag says.
#[test]
fn secrets_are_mounted_where_the_flags_say() {
    let rendered = template(&with(json!({
        "cookies": {"secretName": "shared", "secretKey": "secrets"},
        "encrypted": {"secretName": "certificate", "tlsListen": ["0.0.0.0:5853"]},
    })));
    let rendered = rendered.unwrap();
    let pod = &rendered.workload().unwrap()["spec"]["template"]["spec"];
    let of_flag = |flag: &str| -> String {
        let arguments = rendered.arguments().unwrap();
        let paths = arguments.iter().filter_map(|a| a.strip_prefix(flag));
        let path = paths.map(str::to_owned).next().unwrap();
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let is_above = |mount: &&Value| {
            let folder = mount["mountPath"].as_str().unwrap();
            path.rsplit_once('/').unwrap().0 == folder && mount["readOnly"] == true
        };
        let mount = mounts.iter().find(is_above).unwrap();
        let volumes = pod["volumes"].as_array().unwrap().iter();
        let volume = { volumes }.find(|volume| volume["name"] == mount["name"]);
        let secret = &volume.unwrap()["secret"]["secretName"];
        let file = path.rsplit_once('/').unwrap().1;
        format!("{}/{file}", secret.as_str().unwrap())
    };
    assert_eq!(of_flag("--cookie-secret-file="), "shared/secrets");
    assert_eq!(of_flag("--tls-cert="), "certificate/tls.crt");
    assert_eq!(of_flag("--tls-key="), "certificate/tls.key");
    // Neither is asked for by itself.
    let least = template(&with(json!({}))).unwrap();
    let pod = &least.workload().unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"], Value::Null);
}

/// `list` and `watch`, on two kinds, for the account that the pod has; nothing where no API server is watched.
fn check_permissions(case: &str, rendered: &Rendered) {
    let rules = json!([
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]);
    let roles = rendered
        .objects
        .iter()
        .filter(|object| kind(object).ends_with("Role"));
    let roles: Vec<&Value> = roles.collect();
    let bindings = rendered
        .objects
        .iter()
        .filter(|object| kind(object).ends_with("RoleBinding"));
    let bindings: Vec<&Value> = bindings.collect();
    assert_eq!(roles.len(), bindings.len(), "{case}");
    let pod = &rendered.workload().unwrap()["spec"]["template"]["spec"];
    for (role, binding) in roles.iter().zip(bindings) {
        assert_eq!(role["rules"], rules, "{case}");
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
    let of = |flag: &str| -> Vec<&str> {
        arguments
            .iter()
            .filter_map(|a| a.strip_prefix(flag))
            .collect()
    };
    let namespaces: Vec<&str> = roles
        .iter()
        .filter_map(|role| role["metadata"]["namespace"].as_str())
        .collect();
    let elsewhere = !of("--file=").is_empty() || !of("--kubeconfig=").is_empty();
    assert_eq!(pod["automountServiceAccountToken"], !elsewhere, "{case}");
    if elsewhere || case == "the account of somebody else" {
        assert!(roles.is_empty(), "{case}: {roles:?}");
    } else {
        assert_eq!(namespaces, of("--namespace="), "{case}");
        assert_eq!(roles.len(), namespaces.len().max(1), "{case}");
    }
}

/// The port of an object whose field is this; null if there is none.
fn has_port<'o>(object: &'o Value, field: &str, value: &Value) -> &'o Value {
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

//! Ports of the Service, the pod and the NetworkPolicy are exactly those of the listeners in the settings. Files of the
//! encrypted listeners come from the Secrets in the values.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::chart::objects::has_port;
use support::helm::Rendered;

/// Checks an installation with any values. Every port of a Service targets a port of the container, on which the server
/// listens. The NetworkPolicy allows these ports.
pub fn check(case: &str, rendered: &Rendered) {
    let settings = rendered.settings().unwrap();
    let listen = &settings["listen"];
    assert_eq!(settings["tls"].is_null(), listen["tls"].is_null(), "{case}");
    let exposed = json!([":9154"]);
    let api = if listen["apiHosts"].is_null() {
        &Value::Null
    } else {
        &exposed
    };
    assert_eq!(listen["api"], *api, "{case}");
    // Name, port of the Service, port of the pod, and protocol.
    let mut expected = vec![
        ("dns", 53, 5353, "UDP"),
        ("dns-tcp", 53, 5353, "TCP"),
        ("metrics", 9153, 9153, "TCP"),
    ];
    for (name, setting, protocol) in [("dns-tls", "tls", "TCP"), ("dns-quic", "quic", "UDP")] {
        if !listen[setting].is_null() {
            assert_eq!(listen[setting], json!([":5853"]), "{case}");
            expected.push((name, 853, 5853, protocol));
        }
    }
    let container = rendered.container().unwrap();
    let services = rendered.all("Service");
    let ports = services.flat_map(|service| service["spec"]["ports"].as_array().unwrap());
    let ports = ports.map(|port| {
        let target = has_port(container, "name", &port["targetPort"]);
        assert_eq!(target["protocol"], port["protocol"], "{case}: {port}");
        let [number, target] = [&port["port"], &target["containerPort"]].map(Value::as_u64);
        let [name, protocol] = ["name", "protocol"].map(|field| port[field].as_str().unwrap());
        (name, number.unwrap(), target.unwrap(), protocol)
    });
    let ports: BTreeSet<(&str, u64, u64, &str)> = ports.collect();
    assert_eq!(ports, expected.iter().copied().collect(), "{case}");
    if let Some(policy) = rendered.all("NetworkPolicy").next() {
        let rules = policy["spec"]["ingress"].as_array().unwrap().iter();
        let allowed = rules.flat_map(|rule| rule["ports"].as_array().unwrap());
        let allowed: BTreeSet<_> = allowed
            .map(|port| {
                (
                    port["port"].as_u64().unwrap(),
                    port["protocol"].as_str().unwrap(),
                )
            })
            .collect();
        let mut wanted: BTreeSet<(u64, &str)> = expected
            .iter()
            .map(|&(_, _, target, protocol)| (target, protocol))
            .collect();
        // The only case with an exposed API admits its Ingress.
        wanted.extend((!api.is_null()).then_some((9154, "TCP")));
        assert_eq!(allowed, wanted, "{case}");
    }
    check_files(case, rendered, &settings["tls"]);
}

/// Checks that each file in the settings is a key of a mounted Secret. That of a CA may also have its private key, with which the
/// pod could issue client certificates, so the pod gets one key only.
fn check_files(case: &str, rendered: &Rendered, files: &Value) {
    let pod = &rendered.workload().unwrap()["spec"]["template"]["spec"];
    let container = rendered.container().unwrap();
    let by = |list: &'_ Value, field: &str, value: &str| {
        let mut all = list.as_array().into_iter().flatten();
        all.find(|one| one[field] == *value)
            .unwrap_or(&Value::Null)
            .clone()
    };
    let key = |file: &str| json!([{"key": file, "path": file}]);
    for (name, secret, file, items) in [
        ("certificate", "global-dns-tls", "tls.crt", Value::Null),
        ("key", "global-dns-tls", "tls.key", Value::Null),
        ("clientCa", "global-dns-clients", "ca.crt", key("ca.crt")),
    ] {
        let Some(path) = files[name].as_str() else {
            continue;
        };
        let (folder, last) = path.rsplit_once('/').unwrap();
        let mount = by(&container["volumeMounts"], "mountPath", folder);
        let volume = by(&pod["volumes"], "name", mount["name"].as_str().unwrap());
        assert_eq!((last, &mount["readOnly"]), (file, &json!(true)), "{case}");
        assert_eq!(volume["secret"]["secretName"], secret, "{case}");
        assert_eq!(volume["secret"]["items"], items, "{case}");
    }
}

//! Ports of the Service, the pod and the NetworkPolicy are exactly those of the enabled listeners. Files of the
//! encrypted listeners come from the Secrets in the values.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::chart::objects::has_port;
use crate::chart::values::with;
use support::helm::{Rendered, template};

/// A port by number and protocol.
type Port = (u64, String);

/// The path in a flag must be the mount path of its Secret. The Secret of a CA may hold its private key, with which the pod could
/// issue client certificates.
#[test]
fn secrets_are_mounted_at_the_paths_of_the_flags_and_no_key_of_a_ca() {
    for listener in ["tlsListen", "quicListen"] {
        let encrypted = json!({"secretName": "certificate", "clientCASecretName": "clients", listener: ["0.0.0.0:5853"]});
        let rendered = template(&with(json!({"encrypted": encrypted}))).unwrap();
        for (flag, file) in [
            ("--tls-cert=", "certificate/tls.crt"),
            ("--tls-key=", "certificate/tls.key"),
            ("--tls-client-ca=", "clients/ca.crt"),
        ] {
            assert_eq!(source_of(&rendered, flag), file);
        }
        let pod = &rendered.workload().unwrap()["spec"]["template"]["spec"];
        let mut volumes = pod["volumes"].as_array().unwrap().iter();
        let volume = volumes.find(|volume| volume["secret"]["secretName"] == "clients");
        let items = &volume.unwrap()["secret"]["items"];
        assert_eq!(*items, json!([{"key": "ca.crt", "path": "ca.crt"}]));
    }
}

/// Checks the ports of an installation with any values. Every port of a Service targets a port of the container, on
/// which the server listens. The NetworkPolicy allows the ports of the listeners.
pub fn check(case: &str, rendered: &Rendered) {
    let arguments = rendered.arguments().unwrap();
    let listened = |flag: &str, default: Option<u64>| -> Vec<u64> {
        let given = arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix(flag));
        let ports: Vec<u64> = given
            .map(|a| a.rsplit(':').next().unwrap().parse().unwrap())
            .collect();
        if ports.is_empty() {
            Vec::from_iter(default)
        } else {
            ports
        }
    };
    // Name, port of the Service, protocol, and ports in the pod.
    let known = [
        ("dns", 53, "UDP", listened("--listen=", Some(5353))),
        ("dns-tcp", 53, "TCP", listened("--listen=", Some(5353))),
        ("dns-tls", 853, "TCP", listened("--tls-listen=", None)),
        ("dns-quic", 853, "UDP", listened("--quic-listen=", None)),
        (
            "metrics",
            9153,
            "TCP",
            listened("--admin-listen=", Some(9153)),
        ),
    ];
    let on = known.iter().filter(|(.., own)| !own.is_empty());
    let services = rendered.all("Service");
    let found: Vec<Value> = services.flat_map(ports).collect();
    assert_eq!(found.len(), on.clone().count(), "{case}: {found:?}");
    let container = container(rendered);
    let mut wanted = BTreeSet::new();
    for (name, public, protocol, own) in on {
        let mut of_name = found.iter().filter(|port| port["name"] == *name);
        let port = of_name.next().unwrap();
        assert_eq!(port["port"], *public, "{case}: {port}");
        assert_eq!(port["protocol"], *protocol, "{case}: {port}");
        let container_port = has_port(&container, "name", &port["targetPort"]);
        assert_eq!(container_port["protocol"], *protocol, "{case}: {port}");
        let number = container_port["containerPort"].as_u64().unwrap();
        assert_eq!(own.first(), Some(&number), "{case}: {port}");
        wanted.extend(own.iter().map(|number| (*number, (*protocol).to_owned())));
    }
    if let Some(allowed_ports) = allowed_ports(rendered) {
        assert_eq!(allowed_ports, wanted, "{case}");
    }
}

/// Returns the ports that the NetworkPolicy allows, if there is one.
fn allowed_ports(rendered: &Rendered) -> Option<BTreeSet<Port>> {
    let policy = rendered.all("NetworkPolicy").next()?;
    let rules = policy["spec"]["ingress"].as_array().unwrap().iter();
    let allowed_ports = rules.flat_map(|rule| rule["ports"].as_array().unwrap());
    let port = |port: &Value| {
        let number = port["port"].as_u64().unwrap();
        (number, port["protocol"].as_str().unwrap().to_owned())
    };
    Some(allowed_ports.map(port).collect())
}

/// Returns the Secret and the key behind the file of a flag, as `secret/key`.
fn source_of(rendered: &Rendered, flag: &str) -> String {
    let workload = rendered.workload().unwrap();
    let pod = &workload["spec"]["template"]["spec"];
    let arguments = rendered.arguments().unwrap();
    let mut paths = arguments.iter().filter_map(|a| a.strip_prefix(flag));
    let (folder, file) = paths.next().unwrap().rsplit_once('/').unwrap();
    let mut mounts = pod["containers"][0]["volumeMounts"]
        .as_array()
        .unwrap()
        .iter();
    let mount = mounts.find(|mount| mount["mountPath"] == folder && mount["readOnly"] == true);
    let mount = &mount.unwrap()["name"];
    let mut volumes = pod["volumes"].as_array().unwrap().iter();
    let volume = volumes.find(|volume| volume["name"] == *mount).unwrap();
    let secret = &volume["secret"]["secretName"];
    format!("{}/{file}", secret.as_str().unwrap())
}

fn container(rendered: &Rendered) -> Value {
    rendered.workload().unwrap()["spec"]["template"]["spec"]["containers"][0].clone()
}

/// Returns the ports of a Service or of a container.
fn ports(object: &Value) -> Vec<Value> {
    let of_spec = object["spec"]["ports"].as_array();
    let ports = of_spec.or_else(|| object["ports"].as_array());
    ports.unwrap().clone()
}

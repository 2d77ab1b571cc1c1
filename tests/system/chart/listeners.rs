//! Ports of the Service, the pod and the NetworkPolicy are exactly those of the enabled listeners. Files of the
//! encrypted listeners come from the Secrets in the values.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::chart::objects::has_port;
use crate::chart::values::with;
use support::helm::{RELEASE, Rendered, name, template};

/// An encrypted listener: its value, an address, the port of the Service and the flag.
struct Listener {
    value: &'static str,
    address: &'static str,
    port: Value,
    flag: &'static str,
}

/// A port by number and protocol.
type Port = (u64, String);

fn encrypted_listeners() -> [Listener; 2] {
    let port = |name: &str, port: u16, protocol: &str| json!({"name": name, "port": port, "targetPort": name, "protocol": protocol});
    [
        Listener {
            value: "tlsListen",
            address: "0.0.0.0:5853",
            port: port("dns-tls", 853, "TCP"),
            flag: "--tls-listen=",
        },
        Listener {
            value: "quicListen",
            address: "0.0.0.0:5853",
            port: port("dns-quic", 853, "UDP"),
            flag: "--quic-listen=",
        },
    ]
}

// === impl Listener ===

impl Listener {
    /// Returns the port in the pod.
    fn number(&self) -> u64 {
        let (_, port) = self.address.rsplit_once(':').unwrap();
        port.parse().unwrap()
    }
}

/// Commands find the API by the name of its port. A port-forward reaches loopback only.
#[test]
fn port_of_the_api_on_loopback_has_a_name() {
    let port = |addresses: Value| {
        let rendered = template(&with(json!({"apiListen": addresses}))).unwrap();
        let ports = ports(&container(&rendered));
        let port = ports.iter().find(|port| port["name"] == "api").cloned();
        port.map(|port| port["containerPort"].as_u64().unwrap())
    };
    for (addresses, expected) in [
        (json!(["127.0.0.1:9154"]), Some(9154)),
        (json!(["192.0.2.1:80", "[::1]:81"]), Some(81)),
        (json!([":82"]), Some(82)),
        (json!(["0.0.0.0:83"]), Some(83)),
        (json!(["[::]:84", "127.0.0.1:85"]), Some(84)),
        (json!(["192.0.2.1:86"]), None),
    ] {
        assert_eq!(port(addresses.clone()), expected, "{addresses}");
    }
}

#[test]
fn each_encrypted_listener_adds_only_its_ports_and_flags() {
    let listeners = encrypted_listeners();
    let plain = template(&with(json!({}))).unwrap();
    for chosen in 0..1 << listeners.len() {
        let is_on = |index: &usize| chosen >> index & 1 == 1;
        let on: Vec<&Listener> = (0..listeners.len())
            .filter(is_on)
            .map(|index| &listeners[index])
            .collect();
        let mut encrypted = json!({"secretName": "certificate"});
        for listener in &on {
            encrypted[listener.value] = json!([listener.address]);
        }
        let rendered = template(&with(json!({"encrypted": encrypted}))).unwrap();

        let service = |of: &Rendered| ports(of.service().unwrap());
        let expected: Vec<Value> = on.iter().map(|own| own.port.clone()).collect();
        let found = added(&service(&rendered), &service(&plain));
        assert_eq!(found, expected, "{encrypted}");

        let expected = on.iter().map(|own| {
            let (name, protocol) = (&own.port["name"], &own.port["protocol"]);
            json!({"name": name, "containerPort": own.number(), "protocol": protocol})
        });
        let expected: Vec<Value> = expected.collect();
        let found = added(&ports(&container(&rendered)), &ports(&container(&plain)));
        assert_eq!(found, expected, "{encrypted}");

        let protocol = |own: &Listener| own.port["protocol"].as_str().unwrap().to_owned();
        let expected = on.iter().map(|own| (own.number(), protocol(own)));
        let expected: BTreeSet<Port> = expected.chain(allowed_ports(&plain).unwrap()).collect();
        assert_eq!(allowed_ports(&rendered), Some(expected), "{encrypted}");

        let arguments = rendered.arguments().unwrap();
        let given = |flag: &str| -> Vec<&str> {
            let values = arguments.iter().filter_map(|own| own.strip_prefix(flag));
            values.collect()
        };
        for (index, listener) in listeners.iter().enumerate() {
            let expected: &[&str] = if is_on(&index) {
                &[listener.address]
            } else {
                &[]
            };
            assert_eq!(given(listener.flag), expected, "{encrypted}");
        }
        for flag in ["--tls-cert=", "--tls-key="] {
            assert_eq!(given(flag).is_empty(), on.is_empty(), "{encrypted}: {flag}");
        }
        assert!(given("--tls-client-ca=").is_empty(), "{encrypted}");
    }
}

/// A listener on several addresses must be reachable on the port of each address.
#[test]
fn network_policy_allows_the_port_of_every_address() {
    let rendered = template(&with(json!({
        "listen": ["0.0.0.0:1053", "[::]:1054"], "adminListen": ["0.0.0.0:8080", "[::]:8081"],
        "encrypted": {"secretName": "certificate", "tlsListen": ["0.0.0.0:5853", "[::]:5853"],
            "quicListen": ["0.0.0.0:5853", "[::]:5854"]},
    })));
    let expected = [
        (1053, "UDP"),
        (1053, "TCP"),
        (1054, "UDP"),
        (1054, "TCP"),
        (5853, "TCP"),
        (5853, "UDP"),
        (5854, "UDP"),
        (8080, "TCP"),
        (8081, "TCP"),
    ]
    .map(|(port, protocol)| (port, protocol.to_owned()));
    assert_eq!(allowed_ports(&rendered.unwrap()), Some(expected.into()));
}

/// The path in a flag must be the mount path of its Secret.
#[test]
fn secrets_are_mounted_at_the_paths_of_the_flags() {
    let rendered = template(&with(json!({
        "encrypted": {"secretName": "certificate", "clientCASecretName": "clients", "tlsListen": ["0.0.0.0:5853"]},
    })));
    let rendered = rendered.unwrap();
    assert_eq!(source_of(&rendered, "--tls-cert="), "certificate/tls.crt");
    assert_eq!(source_of(&rendered, "--tls-key="), "certificate/tls.key");
    assert_eq!(source_of(&rendered, "--tls-client-ca="), "clients/ca.crt");
    // The minimum values need no Secret.
    let minimum = template(&with(json!({}))).unwrap();
    let pod = &minimum.workload().unwrap()["spec"]["template"]["spec"];
    assert!(pod["volumes"].is_null(), "{}", pod["volumes"]);
}

/// The Secret of a CA may hold its private key, with which the pod could issue client certificates.
#[test]
fn only_the_ca_certificate_of_the_client_secret_is_mounted() {
    for Listener { value, address, .. } in encrypted_listeners() {
        let mut encrypted = json!({"secretName": "certificate", "clientCASecretName": "clients"});
        encrypted[value] = json!([address]);
        let rendered = template(&with(json!({"encrypted": encrypted}))).unwrap();
        assert_eq!(source_of(&rendered, "--tls-client-ca="), "clients/ca.crt");
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
    assert_eq!(name(workload), RELEASE);
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

/// Returns the ports that are not in `before`, in order. All ports of `before` must exist.
fn added(ports: &[Value], before: &[Value]) -> Vec<Value> {
    assert!(before.iter().all(|port| ports.contains(port)), "{ports:?}");
    let added = ports.iter().filter(|port| !before.contains(port));
    added.cloned().collect()
}

use serde_json::{Value, json};

use super::*;

fn forwarding(zones: &[&str]) -> Forwarding {
    Forwarding {
        zones: zones.iter().map(|zone| zone.parse().unwrap()).collect(),
        address: "10.96.0.53".parse().unwrap(),
        bind: Vec::new(),
    }
}

fn setting(platform: Platform, zones: &[&str], current: &Value) -> Result<String, SettingError> {
    platform.setting(&forwarding(zones), Some(&current.to_string()))
}

fn parsed(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error}: {yaml}"))
}

const STANZA: &str = "global:53 {\n    errors\n    cache 5\n    forward . 10.96.0.53\n}\n";

#[test]
fn each_zone_has_a_server_block() {
    let output = Platform::Coredns.setting(&forwarding(&["global", "b.test"]), None);
    let other = STANZA.replace("global", "b.test");
    assert_eq!(output.unwrap(), format!("{STANZA}{other}"));
}

#[test]
fn custom_config_map_keeps_other_keys() {
    let odd = " indented\n";
    let current = json!({"data": {
        "global.server": "old", "b.server": "b:53 {\n\n    errors\n}\n", "x.override": "log", "7": odd,
    }});
    for platform in [Platform::Aks, Platform::K3s] {
        let output = parsed(&setting(platform, &["global", "c.test"], &current).unwrap());
        let mut expected = current["data"].clone();
        expected["global.server"] = json!(STANZA);
        expected["c.test.server"] = json!(STANZA.replace("global", "c.test"));
        assert_eq!(output["data"], expected);
        assert_eq!(output["metadata"]["name"], "coredns-custom");
    }
}

#[test]
fn stub_domains_of_other_zones_and_other_keys_are_kept() {
    let current = json!({"data": {
        "stubDomains": r#"{"global": ["192.0.2.1"], "example": ["192.0.2.2"]}"#,
        "upstreamNameservers": "[\"192.0.2.3\"]",
    }});
    let output = parsed(&setting(Platform::Gke, &["global"], &current).unwrap());
    let domains = output["data"]["stubDomains"].as_str().unwrap();
    let domains: Value = serde_json::from_str(domains).unwrap();
    assert_eq!(
        domains,
        json!({"global": ["10.96.0.53"], "example": ["192.0.2.2"]})
    );
    assert_eq!(output["data"]["upstreamNameservers"], "[\"192.0.2.3\"]");

    let invalid = json!({"data": {"stubDomains": "{"}});
    let error = setting(Platform::Gke, &["global"], &invalid)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot parse ConfigMap kube-system/kube-dns: "),
        "{error}"
    );
}

#[test]
fn other_servers_of_the_dns_operator_are_kept() {
    let other = json!({"name": "a: b", "zones": ["example"], "forwardPlugin": {"upstreams": ["192.0.2.2"]}});
    let old = json!({"name": "global-dns", "zones": ["old"]});
    let current = json!({"spec": {"servers": [other, old]}});
    let output = parsed(&setting(Platform::Openshift, &["global", "b.test"], &current).unwrap());
    let new = json!({"name": "global-dns", "zones": ["global", "b.test"], "forwardPlugin": {"upstreams": ["10.96.0.53"]}});
    assert_eq!(output["spec"]["servers"], json!([other, new]));
}

#[test]
fn values_of_the_add_on_have_the_current_corefile_and_one_block_for_each_zone() {
    let main = ".:53 {\n    errors # {\n    forward . {$UPSTREAM} {\n       max_concurrent 1000\n    }\n}\n";
    let old = "global:53 {\n    forward . 192.0.2.1 {\n        force_tcp\n    }\n}\n";
    let rest = "example:53 {\n    errors\n}\n";
    let current = json!({"data": {"Corefile": format!("{main}{old}{rest}")}});
    let output = parsed(&setting(Platform::Eks, &["global"], &current).unwrap());
    assert_eq!(output, json!({"corefile": format!("{main}{rest}{STANZA}")}));

    let shared = json!({"data": {"Corefile": "global:53 example:53 {\n}\n"}});
    let error = setting(Platform::Eks, &["global"], &shared).unwrap_err();
    assert!(
        error.to_string().contains("'global:53 example:53 {'"),
        "{error}"
    );
    let missing = setting(Platform::Eks, &["global"], &json!({})).unwrap_err();
    assert!(missing.to_string().contains("has no Corefile"), "{missing}");
}

#[test]
fn stanza_of_the_node_cache_has_its_bind_line() {
    let corefile =
        "cluster.local:53 {\n    # bind 192.0.2.1\n    bind 169.254.20.10 10.96.0.10\n}\n";
    let current = json!({"data": {"Corefile": corefile}});
    let expected = STANZA.replace(
        "    forward",
        "    bind 169.254.20.10 10.96.0.10\n    forward",
    );
    assert_eq!(
        setting(Platform::NodeLocalDns, &["global"], &current),
        Ok(expected.clone())
    );
    let mut given = forwarding(&["global"]);
    given.bind = vec![
        "169.254.20.10".parse().unwrap(),
        "10.96.0.10".parse().unwrap(),
    ];
    assert_eq!(Platform::NodeLocalDns.setting(&given, None), Ok(expected));

    let without = json!({"data": {"Corefile": ".:53 {\n}\n"}});
    let error = setting(Platform::NodeLocalDns, &["global"], &without).unwrap_err();
    assert!(error.to_string().contains("--bind"), "{error}");
}

// === The Service ===

fn service(name: &str, spec: Value) -> String {
    json!({"metadata": {"namespace": "dns", "name": name}, "spec": spec}).to_string()
}

fn with_addresses(addresses: &[&str]) -> String {
    let spec = json!({"clusterIP": addresses[0], "clusterIPs": addresses, "ports": [{"port": 53}]});
    service("one", spec)
}

#[test]
fn cluster_ip_is_that_of_the_only_service_with_a_dns_port() {
    let metrics = service(
        "one-metrics",
        json!({"clusterIP": "10.96.0.7", "ports": [{"port": 9153}]}),
    );
    for address in ["10.96.0.53", "2001:db8::53"] {
        let services = [with_addresses(&[address]), metrics.clone()];
        assert_eq!(cluster_ip(&services, None), Ok(address.parse().unwrap()));
    }
    let old = service(
        "old",
        json!({"clusterIP": "10.96.0.8", "ports": [{"port": 53}]}),
    );
    assert_eq!(
        cluster_ip(&[old], Some("dns/old")),
        Ok("10.96.0.8".parse().unwrap())
    );
}

#[test]
fn service_without_exactly_one_cluster_ip_is_refused() {
    let headless = with_addresses(&["None"]);
    let external = service(
        "one",
        json!({"type": "ExternalName", "externalName": "x.test"}),
    );
    let pending = service("one", json!({"clusterIP": "", "ports": [{"port": 53}]}));
    let no_port = service(
        "one",
        json!({"clusterIP": "10.96.0.8", "ports": [{"port": 80}]}),
    );
    let dual = with_addresses(&["10.96.0.53", "2001:db8::53"]);
    let none = |why| ClusterIpError::NoClusterIp("dns/one".to_owned(), why);
    for (services, named, error) in [
        (vec![], None, ClusterIpError::NoService),
        (vec![no_port.clone()], None, ClusterIpError::NoService),
        (
            vec![],
            Some("dns/one"),
            ClusterIpError::Unknown("dns/one".to_owned()),
        ),
        (
            vec![no_port],
            Some("dns/one"),
            ClusterIpError::NoDnsPort("dns/one".to_owned()),
        ),
        (vec![headless], Some("dns/one"), none("it is headless")),
        (
            vec![external],
            Some("dns/one"),
            none("it has type ExternalName"),
        ),
        (vec![pending], None, none("none is assigned yet")),
        (
            vec![dual.clone()],
            None,
            ClusterIpError::DualStack {
                service: "dns/one".to_owned(),
                addresses: vec!["10.96.0.53".to_owned(), "2001:db8::53".to_owned()],
            },
        ),
        (
            vec![
                with_addresses(&["10.96.0.53"]),
                with_addresses(&["10.96.0.54"]),
            ],
            None,
            ClusterIpError::Several(vec!["dns/one".to_owned(), "dns/one".to_owned()]),
        ),
    ] {
        assert_eq!(cluster_ip(&services, named), Err(error));
    }
    assert!(is_cluster_ip(
        "2001:db8::53".parse().unwrap(),
        std::slice::from_ref(&dual)
    ));
    assert!(!is_cluster_ip("10.244.0.7".parse().unwrap(), &[dual]));
}

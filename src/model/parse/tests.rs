use serde_json::{Value, json};

use super::*;
use crate::model::{
    GatewayDown, Item, ItemKind, Listed, ListedHost, Port, Ports, ProblemKind, Protocol,
    ServiceSettings, Slice, SliceEndpoint, intern, key,
};
use crate::testing;

fn object(kind: Kind, object: &Value) -> Object {
    read(kind, &KubeObject::read(&object.to_string())).unwrap()
}

fn endpoint_mirror_of(change: impl FnOnce(&mut Value)) -> Object {
    let mut service = json!({
        "metadata": {
            "namespace": "prod", "name": "db-0-east",
            "labels": {key::MIRRORED_SERVICE: "true", key::CLUSTER_NAME: "east", key::HEADLESS_MIRROR: "db-east"},
            "annotations": {key::REMOTE_FQ_NAME: "db-0.db.prod.svc.cluster.local"},
        },
        "spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": [
            {"name": "sql", "port": 26257, "targetPort": 1},
        ]},
    });
    change(&mut service);
    object(Kind::Service, &service)
}

/// Port `sql` with a number.
fn sql(number: u16) -> Ports {
    Ports::interned([Port {
        number,
        name: Some("sql".parse().unwrap()),
        protocol: Protocol::Tcp,
    }])
}

fn reason(object: &Object) -> Option<ProblemKind> {
    match object {
        Object::Skipped(skip) => Some(skip.kind),
        Object::Item(_) | Object::Slice(_) | Object::Plain | Object::Link(_) => None,
    }
}

fn item(object: Object) -> Item {
    let Object::Item(item) = object else {
        panic!("{object:?}")
    };
    *item
}

fn endpoints(object: Object) -> Listed<SliceEndpoint> {
    let Object::Slice(Slice::Endpoints(listed)) = object else {
        panic!("{object:?}")
    };
    *listed
}

#[test]
fn ports_of_pods_are_those_that_the_mirror_has_as_numbers() {
    let pod_ports = |target: Value| {
        let mirror = item(endpoint_mirror_of(|service| {
            service["spec"]["ports"][0]["targetPort"] = target;
        }));
        mirror.host.unwrap().pod_ports
    };
    assert_eq!(pod_ports(json!(15432)), sql(15432));
    assert_eq!(pod_ports(Value::Null), sql(26257));
    for unknown in [json!("sql"), json!(0), json!(65536), json!(1.5), json!([])] {
        assert_eq!(pod_ports(unknown), Ports::interned([]));
    }
}

#[test]
fn annotation_with_another_namespace_is_a_mismatch() {
    let object = endpoint_mirror_of(|s| {
        s["metadata"]["annotations"][key::REMOTE_FQ_NAME] = json!("db-0.db.bank.svc.cluster.local");
    });
    assert_eq!(
        object,
        Object::Skipped(Arc::new(Problem::new(
            ProblemKind::NamespaceMismatch,
            "the annotation names another namespace: 'bank', not 'prod'"
        )))
    );
}

#[test]
fn exact_suffix_is_removed_once_without_annotation() {
    let object = endpoint_mirror_of(|s| {
        s["metadata"]["name"] = json!("db-east-0-east");
        s["metadata"]["labels"][key::HEADLESS_MIRROR] = json!("db-east-east");
        s["metadata"]["annotations"] = json!({});
    });
    let mirror = item(object);
    let host = mirror.host.unwrap();
    assert_eq!(
        (host.hostname.as_str(), mirror.service.as_str()),
        ("db-east-0", "db-east")
    );
}

#[test]
fn name_without_annotation_and_suffix_is_bad() {
    for name in ["db-0-west", "db-0east", "east", "-east"] {
        let object = endpoint_mirror_of(|s| {
            s["metadata"]["name"] = json!(name);
            s["metadata"]["annotations"] = json!({});
        });
        assert_eq!(reason(&object), Some(ProblemKind::UnusableObject), "{name}");
    }
}

#[test]
fn address_that_clients_cannot_use_is_bad() {
    for ip in [
        "None",
        "",
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.96.0.7",
    ] {
        let object = endpoint_mirror_of(|s| s["spec"]["clusterIPs"] = json!([ip]));
        assert_eq!(reason(&object), Some(ProblemKind::UnusableObject), "{ip}");
    }
    for ips in [json!([]), json!(null)] {
        let none = endpoint_mirror_of(|s| s["spec"] = json!({"clusterIPs": ips}));
        assert_eq!(reason(&none), Some(ProblemKind::UnusableObject));
    }
}

/// Parses a mirror `web-east` with further labels and annotations.
fn service_mirror(name: &str, mut labels: Value, annotations: Value, ip: &str) -> Object {
    labels[key::MIRRORED_SERVICE] = json!("true");
    let service = json!({
        "metadata": {"namespace": "prod", "name": name, "labels": labels, "annotations": annotations},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "port": 80}]},
    });
    object(Kind::Service, &service)
}

#[test]
fn skipped_mirror_names_its_service_and_cluster() {
    let mirror_of = |object: Object| {
        let Object::Skipped(skip) = &object else {
            panic!("{object:?}")
        };
        let (key, cluster) = (skip.service.as_ref()?, skip.cluster.as_ref()?);
        Some(format!("{key} {cluster}"))
    };
    let endpoint_mirror = endpoint_mirror_of(|s| s["spec"] = json!({"clusterIPs": ["none"]}));
    assert_eq!(mirror_of(endpoint_mirror).as_deref(), Some("prod/db east"));
    let annotations = json!({key::REMOTE_FQ_NAME: "web.prod.svc.cluster.local"});
    let labels = json!({key::CLUSTER_NAME: "east"});
    let mirror = service_mirror("web-east", labels, annotations.clone(), "");
    assert_eq!(mirror_of(mirror).as_deref(), Some("prod/web east"));
    let unreadable = service_mirror("web-east", json!({key::CLUSTER_NAME: ""}), annotations, "");
    assert_eq!(mirror_of(unreadable), None);
}

/// Cilium copies labels of an exported Service to the Service that it derives from a ServiceImport.
#[test]
fn service_of_the_mcs_api_is_no_mirror() {
    for mut mirror in [
        testing::mirror("prod", "db", "east"),
        testing::flat_mirror("prod", "web", "east", "10.96.0.1"),
        testing::federated("prod", "web", "10.96.0.1", "web@east"),
    ] {
        assert_eq!(reason(&object(Kind::Service, &mirror)), None);
        mirror["metadata"]["labels"][key::MCS_SERVICE] = json!("db");
        let Object::Skipped(skip) = object(Kind::Service, &mirror) else {
            panic!("{mirror}")
        };
        // It mirrors nothing.
        assert_eq!((skip.kind, &skip.service), (ProblemKind::LeftOut, &None));
        assert!(skip.detail.contains(key::MCS_SERVICE), "{}", skip.detail);
    }
}

/// If a mirror is exported again, Linkerd copies the labels of a flat mirror to its mirror.
#[test]
fn labels_of_a_flat_mirror_that_disagree_are_skipped() {
    for (label, value) in [
        (key::REMOTE_DISCOVERY, "west"),
        (key::REMOTE_DISCOVERY, ""),
        (key::REMOTE_SERVICE, "api"),
        (key::REMOTE_SERVICE, "not a name"),
    ] {
        let mut labels = json!({key::CLUSTER_NAME: "east", key::REMOTE_DISCOVERY: "east", key::REMOTE_SERVICE: "web"});
        labels[label] = json!(value);
        let annotations = json!({key::REMOTE_FQ_NAME: "web.prod.svc.cluster.local"});
        let object = service_mirror("web-east", labels, annotations, "10.96.0.1");
        let Object::Skipped(skip) = &object else {
            panic!("{label}={value}: {object:?}")
        };
        assert_eq!(skip.kind, ProblemKind::UnusableObject);
        assert!(skip.detail.contains(label), "{}", skip.detail);
        assert!(
            skip.detail.contains(&format!("'{value}'")),
            "{}",
            skip.detail
        );
    }
}

#[test]
fn federated_service_lists_its_members() {
    let federated = |name: &str, annotations: Value| {
        let labels = json!({key::MIRRORED_SERVICE: "true"});
        let object = service_mirror(name, labels, annotations, "10.96.0.1");
        if let Some(reason) = reason(&object) {
            return Err(reason);
        }
        let federated = item(object);
        assert_eq!(federated.kind, ItemKind::Federated);
        assert_eq!(federated.service.to_string(), "web");
        let has_own = federated.has_own;
        let names: Vec<String> = federated.linked.iter().map(ToString::to_string).collect();
        let invalid = federated.settings.unwrap_or_default().unused;
        Ok((names.join(","), has_own, invalid))
    };
    let remote = |list: &str| json!({key::REMOTE_DISCOVERY: list});
    let valid = |list: &str, local| Ok((list.to_owned(), local, Vec::new()));
    // The order of the annotation is arbitrary.
    assert_eq!(
        federated("web-federated", remote("web@west,web@east")),
        valid("east,west", false)
    );
    assert_eq!(
        federated("web-federated", json!({key::LOCAL_DISCOVERY: "web"})),
        valid("", true)
    );
    for name in ["web.bank", "", "Web"] {
        let local = federated("web-federated", json!({key::LOCAL_DISCOVERY: name})).unwrap();
        let detail = format!(
            "annotation {}: ignored: it is not the name of a Service: {name}",
            key::LOCAL_DISCOVERY
        );
        let invalid = vec![detail.into()];
        assert_eq!(local, (String::new(), false, invalid));
    }
    // A service of another namespace is not a member.
    let foreign = federated("web-federated", remote("web.bank@east,web@west")).unwrap();
    assert_eq!(foreign.0, "west");
    assert_eq!(
        foreign.2,
        [&*format!(
            "annotation {}: ignored: it is not SERVICE@CLUSTER: web.bank@east",
            key::REMOTE_DISCOVERY
        )]
    );
    let twice = federated("web-federated", remote("api@east,web@east,web@west")).unwrap();
    assert_eq!(twice.0, "east,west");
    assert_eq!(
        twice.2,
        [&*format!(
            "annotation {}: corrected: it names cluster 'east' twice",
            key::REMOTE_DISCOVERY
        )]
    );
    for (count, is_noted) in [(256, false), (257, true)] {
        let list: Vec<String> = (0..count).map(|index| format!("web@c{index}")).collect();
        let (names, _, invalid) = federated("web-federated", remote(&list.join(","))).unwrap();
        assert_eq!(names.split(',').count(), 256);
        assert_eq!(invalid.len(), usize::from(is_noted), "{count}");
    }
    assert_eq!(
        federated("web", remote("web@east")),
        Err(ProblemKind::UnusableObject)
    );
    assert_eq!(
        federated("-federated", remote("web@east")),
        Err(ProblemKind::UnusableObject)
    );
}

#[test]
fn invalid_annotation_of_this_server_is_reported() {
    let settings_of = |ttl: &str, gateway_down: &str| {
        let annotations = json!({key::TTL: ttl, key::GATEWAY_DOWN: gateway_down});
        let object = json!({"metadata": {"annotations": annotations}}).to_string();
        ServiceSettings::of_own(&KubeObject::read(&object))
    };
    let good = ServiceSettings {
        ttl: Some(10),
        gateway_down: Some(GatewayDown::Include),
        ..ServiceSettings::default()
    };
    assert_eq!(settings_of("10", "include"), good);
    let bad = settings_of("soon", &"x".repeat(200_000));
    assert_eq!((bad.ttl, bad.gateway_down), (None, None));
    assert_eq!(
        *bad.unused[0],
        *"annotation global-dns/ttl: ignored: it is not a number of seconds, such as 5: soon"
    );
    let value = "x".repeat(40);
    assert_eq!(
        *bad.unused[1],
        *format!(
            "annotation global-dns/gateway-down: ignored: it has 200000 octets; at most 1024 are allowed: {value}"
        )
    );
}

#[test]
fn skipped_parts_of_slice_are_reported_once_for_each_reason() {
    let slice = json!({
        "metadata": {"namespace": "prod", "name": "db-1", "labels": {key::SERVICE_NAME: "db"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "hostname": "db_0"},
            {"addresses": ["0.0.0.0"]},
            {"addresses": ["127.0.0.1"]},
            {"addresses": []},
            {"addresses": ["10.0.0.2"], "hostname": ""},
        ],
    });
    let slice = endpoints(object(Kind::EndpointSlice, &slice));
    let hosts = slice.entries.iter().map(|e| e.hostname.as_str());
    assert_eq!(hosts.collect::<Vec<_>>(), ["10-0-0-1", "10-0-0-2"]);
    let skips: Vec<_> = slice
        .left_out
        .iter()
        .map(|skip| (skip.kind, skip.detail.as_str()))
        .collect();
    let name =
        "not a DNS label: 'db_0'; a label has 1 to 63 lower-case letters, digits and inner hyphens";
    let address = "not the address of a host: '0.0.0.0'; and 2 more";
    assert_eq!(
        skips,
        [
            (ProblemKind::UnusableObject, address),
            (ProblemKind::UnusableObject, name)
        ]
    );
}

#[test]
fn slice_of_headless_mirror_lists_hosts() {
    let slice = |labels: Value, endpoints: Value| {
        let mut slice = json!({
            "metadata": {"namespace": "prod", "name": "db-east-x", "labels": labels},
            "addressType": "IPv4", "ports": [{"name": "sql", "port": 15432}], "endpoints": endpoints,
        });
        slice["metadata"]["labels"][key::SERVICE_NAME] = json!("db-east");
        object(Kind::EndpointSlice, &slice)
    };
    let headless = || json!({key::MIRRORED_SERVICE: "true", key::CLUSTER_NAME: "east"});
    let host = |host: &str, ip: &str| json!({"addresses": [ip], "hostname": host, "conditions": {"ready": false}});
    let listed = |hostname: &str, address: Option<&str>| ListedHost {
        hostname: hostname.parse().unwrap(),
        address: address.map(|ip| ip.parse().unwrap()),
    };
    let owner = intern("db-east");
    let list = |hosts| {
        Slice::Hosts(Box::new(Listed {
            owner: owner.clone(),
            entries: hosts,
            ports: sql(15432),
            left_out: Box::default(),
        }))
    };
    let (zero, one) = (host("db-0", "10.96.0.1"), host("db-1", "10.96.0.2"));
    let hosts = [
        listed("db-0", Some("10.96.0.1")),
        listed("db-1", Some("10.96.0.2")),
    ];
    let both = Object::Slice(list(hosts.into()));
    // The order does not matter, and each host occurs once.
    assert_eq!(slice(headless(), json!([zero, one])), both);
    assert_eq!(slice(headless(), json!([one, zero, one])), both);
    // Hosts that are left out are reported, also if no other host is listed.
    for hosts in [0, 1] {
        let names = ["not a name", "db_0", "db-0"].map(|name| host(name, "10.96.0.3"));
        let Object::Slice(Slice::Hosts(read)) = slice(headless(), json!(&names[..2 + hosts]))
        else {
            panic!()
        };
        assert_eq!((read.entries.len(), read.left_out.len()), (hosts, 1));
        let detail = &*read.left_out[0].detail;
        assert!(detail.contains("'not a name'"), "{detail}");
        assert!(detail.ends_with("; and 1 more"), "{detail}");
    }
    // These slices were overwritten with a gateway address, are empty, or belong to an endpoint mirror.
    let of_endpoint = json!({key::MIRRORED_SERVICE: "true", key::HEADLESS_MIRROR: "db-east"});
    let gateway = json!([{"addresses": ["198.51.100.10"], "conditions": {"ready": false}}]);
    for (labels, endpoints, ready) in [
        (headless(), gateway, Some(false)),
        (headless(), json!([]), None),
        (of_endpoint, json!([zero]), Some(false)),
    ] {
        let owner = owner.clone();
        let expected = Slice::Addresses { owner, ready };
        assert_eq!(slice(labels, endpoints), Object::Slice(expected));
    }
}

#[test]
fn unknown_annotation_with_the_prefix_of_this_server_is_reported() {
    let unreadable = |annotations: Value| {
        let object = json!({"metadata": {"annotations": annotations}}).to_string();
        ServiceSettings::of_own(&KubeObject::read(&object)).unused
    };
    let known = key::SETTINGS.join(", ");
    let nearest = "no setting has this name; the nearest is global-dns/failover".to_owned();
    for (name, reason) in [
        ("global-dns/fail-over", nearest.clone()),
        ("globaldns/failover", nearest.clone()),
        ("global-dns.io/failover", nearest),
        (
            "global-dns/something-else-altogether",
            format!("the settings are {known}"),
        ),
    ] {
        let mut annotations = json!({key::TTL: "5", "example.org/x": "y"});
        annotations[name] = json!("east");
        assert_eq!(
            unreadable(annotations),
            [&*format!("annotation {name}: ignored: {reason}")]
        );
    }
    let other = json!({"example.org/x": "y"});
    assert!(unreadable(other).is_empty());
}

#[test]
fn only_the_ttl_of_a_mirror_counts() {
    let annotations = json!({key::TTL: "2", key::FAILOVER: "east"});
    let object = json!({"metadata": {"annotations": annotations}}).to_string();
    let expected = ServiceSettings {
        ttl: Some(2),
        unused: vec![format!("{}=east", key::FAILOVER).into()],
        ..ServiceSettings::default()
    };
    assert_eq!(
        ServiceSettings::of_mirror(&KubeObject::read(&object)),
        expected
    );
}

/// Linkerd may write the status of a Link each minute, with thousands of entries (rule L1).
#[test]
fn status_of_a_link_is_not_kept() {
    let mut link = testing::link("east", "east");
    let small = object(Kind::Link, &link);
    let entry = json!({"remoteRef": {"name": "db", "namespace": "prod"},
        "conditions": [{"type": "Mirrored", "status": "True", "message": "x".repeat(300)}]});
    link["status"] = json!({"mirrorServices": vec![entry; 4000]});
    assert_eq!(object(Kind::Link, &link), small);
}

use std::net::IpAddr;

use serde_json::{Value, json};

use super::*;
use crate::model::fields::shorten;
use crate::model::{
    Clusters, Export, FederatedClusters, Few, GatewayDown, Hostname, Item, ItemKind, ListedHost,
    ListedHosts, MirroredHost, Port, Ports, Protocol, ServiceKey, ServiceSettings, Slice,
    SliceContent, SliceEndpoints, intern, key,
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
        Object::Item(_) | Object::Slice(_) | Object::Plain(_) | Object::Link(_) => None,
    }
}

fn item(object: Object) -> Item {
    let Object::Item(item) = object else {
        panic!("{object:?}")
    };
    *item
}

fn endpoints(object: Object) -> SliceEndpoints {
    let Object::Slice(Slice {
        content: SliceContent::Endpoints(listed),
        ..
    }) = object
    else {
        panic!("{object:?}")
    };
    *listed
}

#[test]
fn endpoint_mirror_is_parsed_from_labels_annotation_and_spec() {
    let expected = Item {
        kind: ItemKind::EndpointMirror,
        clusters: Clusters::Linked("east".parse().unwrap()),
        service: ServiceKey {
            namespace: "prod".parse().unwrap(),
            service: "db".parse().unwrap(),
        },
        host: Some(MirroredHost {
            hostname: "db-0".parse::<Hostname>().unwrap(),
            parent: "db-east".into(),
            pod_ports: sql(1),
        }),
        addresses: Few::one("10.96.0.7".parse().unwrap()),
        ports: sql(26257),
        settings: None,
        created: None,
    };
    assert_eq!(endpoint_mirror_of(|_| ()), expected.into());
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
        skipped(Problem::new(
            ProblemKind::NamespaceMismatch,
            "the annotation names namespace 'bank', but the object is in 'prod'"
        ))
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
        (host.hostname.as_str(), mirror.service.service.as_str()),
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
fn name_that_is_not_a_label_is_bad() {
    for fq_name in [
        "db_0.db.prod.svc",
        "db-0.d b.prod.svc",
        "db-0",
        "",
        "DB-0.db.prod.svc",
    ] {
        let object = endpoint_mirror_of(|s| {
            s["metadata"]["annotations"][key::REMOTE_FQ_NAME] = json!(fq_name);
        });
        assert_eq!(
            reason(&object),
            Some(ProblemKind::UnusableObject),
            "{fq_name}"
        );
    }
    let dotted = endpoint_mirror_of(|s| s["metadata"]["labels"][key::CLUSTER_NAME] = json!("a.b"));
    assert_eq!(reason(&dotted), Some(ProblemKind::UnusableObject));
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

#[test]
fn cluster_ip_is_used_without_cluster_ips() {
    let addresses = |ip: &str, ips: Value| {
        let object =
            endpoint_mirror_of(|s| s["spec"] = json!({"clusterIP": ip, "clusterIPs": ips}));
        item(object).addresses.to_vec()
    };
    let one: IpAddr = "10.96.0.7".parse().unwrap();
    for ips in [json!(null), json!([]), json!(["10.96.0.7"])] {
        assert_eq!(addresses("10.96.0.7", ips), [one]);
    }
    // The list has more than its first entry.
    let two = addresses("10.96.0.7", json!(["10.96.0.7", "2001:db8::7"]));
    assert_eq!(two, [one, "2001:db8::7".parse().unwrap()]);
    for ip in ["None", "", "127.0.0.1"] {
        let object = endpoint_mirror_of(|s| s["spec"] = json!({"clusterIP": ip}));
        assert_eq!(reason(&object), Some(ProblemKind::UnusableObject), "{ip}");
    }
}

#[test]
fn field_of_wrong_type_is_undecodable() {
    let object = endpoint_mirror_of(|s| s["spec"]["ports"] = json!("all of them"));
    assert_eq!(reason(&object), Some(ProblemKind::UnusableObject));
}

#[test]
fn undecodable_headless_service_is_selected_and_skipped() {
    let service = |cluster_ip: &str| {
        let service = json!({
            "metadata": {"namespace": "prod", "name": "db"},
            "spec": {"clusterIP": cluster_ip, "ports": "all of them"},
        });
        let json = service.to_string();
        read(Kind::Service, &KubeObject::read(&json))
    };
    let object = service("None").unwrap();
    assert_eq!(reason(&object), Some(ProblemKind::UnusableObject));
    assert_eq!(service("10.96.0.7"), Some(Object::Plain(None)));
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
fn kind_of_a_mirror_comes_from_its_cluster_ip_and_labels() {
    let route = |labels: Value, ip: &str| {
        let annotations = json!({key::REMOTE_FQ_NAME: "web.prod.svc.cluster.local"});
        let object = service_mirror("web-east", labels, annotations, ip);
        if let Some(reason) = reason(&object) {
            return Err(reason);
        }
        let mirror = item(object);
        assert_eq!(mirror.service.to_string(), "prod/web");
        assert_eq!(mirror.link().unwrap().as_str(), "east");
        if mirror.kind != ItemKind::HeadlessMirror {
            assert_eq!(mirror.addresses[0].to_string(), ip);
            assert_eq!(mirror.ports.iter().map(|port| port.number).max(), Some(80));
        }
        Ok(mirror.kind)
    };
    let gateway = json!({key::CLUSTER_NAME: "east"});
    assert_eq!(
        route(gateway.clone(), "10.96.0.1"),
        Ok(ItemKind::GatewayMirror)
    );
    let flat = json!({key::CLUSTER_NAME: "east", key::REMOTE_DISCOVERY: "east", key::REMOTE_SERVICE: "web"});
    assert_eq!(route(flat, "10.96.0.1"), Ok(ItemKind::FlatMirror));
    assert_eq!(route(gateway.clone(), ""), Err(ProblemKind::UnusableObject));
    assert_eq!(route(gateway, "None"), Ok(ItemKind::HeadlessMirror));
    assert_eq!(
        route(json!({}), "10.96.0.1"),
        Err(ProblemKind::UnusableObject)
    );
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
    let derived = |mut object: Value| {
        object["metadata"]["labels"][key::MCS_SERVICE] = json!("db");
        object
    };
    let mut endpoint_mirror = Value::Null;
    endpoint_mirror_of(|service| endpoint_mirror = service.clone());
    for (what, object) in [
        ("endpoint mirror", endpoint_mirror),
        ("headless mirror", testing::mirror("prod", "db", "east")),
        (
            "gateway mirror",
            testing::service_mirror("prod", "web", "east", "10.96.0.1"),
        ),
        (
            "flat mirror",
            testing::flat_mirror("prod", "web", "east", "10.96.0.1"),
        ),
        (
            "federated service",
            testing::federated("prod", "web", "10.96.0.1", "web@east"),
        ),
    ] {
        let select = |object: Value| {
            let json = object.to_string();
            read(Kind::Service, &KubeObject::read(&json)).unwrap()
        };
        assert_eq!(reason(&select(object.clone())), None, "{what}");
        let object = select(derived(object));
        assert_eq!(reason(&object), Some(ProblemKind::LeftOut), "{what}");
        let Object::Skipped(skip) = object else {
            panic!("{object:?}")
        };
        assert_eq!(skip.service, None, "it mirrors nothing: {what}");
        assert!(
            skip.detail.contains(key::MCS_SERVICE) && skip.detail.contains(key::MIRRORED_SERVICE)
        );
    }
    // Without labels of Linkerd, such a Service is normal, and nobody needs to know.
    for mut object in [
        testing::exported("prod", "web", "10.96.0.1"),
        testing::local("prod", "db", &[])[0].clone(),
    ] {
        object["metadata"]["annotations"][key::TTL] = json!("9");
        let json = derived(object).to_string();
        assert_eq!(read(Kind::Service, &KubeObject::read(&json)), None);
    }
    // Its slices are not read.
    for slice in [
        testing::gateway("prod", "db-0-east", true),
        testing::listing("prod", "db-east", &[("db-0", "10.96.0.1")]),
        testing::backends("prod", "web", false, true),
    ] {
        let json = derived(slice).to_string();
        let selected = read(Kind::EndpointSlice, &KubeObject::read(&json));
        assert_eq!(selected, None, "{json}");
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
        assert_eq!(federated.service.to_string(), "prod/web");
        let Clusters::Several(clusters) = federated.clusters else {
            panic!("{federated:?}")
        };
        let FederatedClusters { names, has_own } = *clusters;
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let invalid = federated.settings.unwrap_or_default().unreadable;
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
            "{}={name}: it is not the name of a Service",
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
            "{}=web.bank@east: it is not SERVICE@CLUSTER",
            key::REMOTE_DISCOVERY
        )]
    );
    let twice = federated("web-federated", remote("api@east,web@east,web@west")).unwrap();
    assert_eq!(twice.0, "east,west");
    assert_eq!(
        twice.2,
        [&*format!(
            "{}: it names cluster 'east' twice",
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

/// Only the annotation makes it a federated service, and only the label a mirror of one cluster.
#[test]
fn mirror_without_a_cluster_and_without_members_is_skipped() {
    let service = json!({
        "metadata": {
            "namespace": "prod",
            "name": "web-federated",
            "labels": {key::MIRRORED_SERVICE: "true"},
        },
        "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": []},
    });
    let json = service.to_string();
    let object = read(Kind::Service, &KubeObject::read(&json)).unwrap();
    assert!(reason(&object).is_some(), "{object:?}");
}

#[test]
fn exported_service_with_a_cluster_ip_is_local() {
    let service = |export: &str, ip: &str| {
        let service = json!({
            "metadata": {"namespace": "prod", "name": "web", "labels": {key::EXPORTED: export}},
            "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "port": 80}]},
        });
        let json = service.to_string();
        read(Kind::Service, &KubeObject::read(&json)).unwrap()
    };
    let own = item(service("true", "10.96.0.1"));
    let form = |item: &Item| (item.own().unwrap().form, item.own().unwrap().export);
    assert_eq!(
        form(&own),
        (crate::model::OwnForm::ClusterIp, Export::Gateway)
    );
    assert_eq!(own.ports.iter().next().map(|port| port.number), Some(80));
    let object = service("remote-discovery", "None");
    let own = item(object);
    let headless = crate::model::OwnForm::Headless {
        has_selector: false,
    };
    assert_eq!(form(&own), (headless, Export::RemoteDiscovery));
    assert_eq!(own.ports.iter().next().map(|port| port.number), Some(80));
    // A Service of type ExternalName has no cluster IP.
    assert_eq!(
        reason(&service("true", "")),
        Some(ProblemKind::UnusableObject)
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
        *bad.unreadable[0],
        *"global-dns/ttl=soon: it is not a number of seconds"
    );
    assert!(bad.unreadable[1].len() < 120);
}

#[test]
fn endpoint_without_ready_condition_is_ready() {
    let slice = json!({
        "metadata": {"namespace": "prod", "name": "db-1", "labels": {key::SERVICE_NAME: "db"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": ["10.0.0.3"], "conditions": {"ready": false}}],
    });
    let slice = endpoints(object(Kind::EndpointSlice, &slice));
    let parsed: Vec<_> = slice
        .endpoints
        .iter()
        .map(|e| (e.address, e.ready))
        .collect();
    assert_eq!(
        parsed,
        [
            ("10.0.0.1".parse().unwrap(), true),
            ("10.0.0.3".parse().unwrap(), false)
        ]
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
    let hosts = slice.endpoints.iter().map(|e| e.hostname.as_str());
    assert_eq!(hosts.collect::<Vec<_>>(), ["10-0-0-1", "10-0-0-2"]);
    let skips: Vec<_> = slice
        .left_out
        .iter()
        .map(|skip| (skip.kind, skip.detail.as_str()))
        .collect();
    let name = "'db_0' is not a DNS label: a label has 1 to 63 lower-case letters, digits and inner hyphens";
    let address = "'0.0.0.0' is not the address of a host; and 2 more";
    assert_eq!(
        skips,
        [
            (ProblemKind::UnusableObject, name),
            (ProblemKind::UnusableObject, address)
        ]
    );
}

#[test]
fn long_value_is_truncated_in_detail() {
    let object = endpoint_mirror_of(|s| {
        s["metadata"]["annotations"][key::REMOTE_FQ_NAME] = json!("ä".repeat(100_000));
    });
    let Object::Skipped(skip) = object else {
        panic!("{object:?}")
    };
    assert_eq!(skip.kind, ProblemKind::UnusableObject);
    assert_eq!(skip.detail.chars().count(), 401);
    let detail = String::from(skip.detail.clone());
    assert!(detail.capacity() < 1000 && detail.ends_with('…'));
}

/// The controllers of slices copy the labels of a Service to its slices, so labels say whether a slice matters.
#[test]
fn labels_decide_whether_an_object_matters() {
    let reader = |kind, labels: Value| {
        let object = json!({"metadata": {"namespace": "prod", "name": "x", "labels": labels},
            "spec": {"clusterIP": "10.96.0.1"}, "addressType": "IPv4", "endpoints": []})
        .to_string();
        match read(kind, &KubeObject::read(&object)) {
            None => "none",
            Some(Object::Slice(slice)) => match slice.content {
                SliceContent::Endpoints(_) => "pods",
                SliceContent::Ready(_) | SliceContent::Hosts(_) => "readiness",
            },
            Some(Object::Skipped(skip)) => skip.kind.name(),
            Some(_) => "service",
        }
    };
    let (owner, kubernetes) = (key::SERVICE_NAME, controller::KUBERNETES);
    for (labels, expected) in [
        (json!({key::MANAGED_BY: kubernetes}), "none"),
        (
            json!({key::MANAGED_BY: kubernetes, key::HEADLESS: ""}),
            "pods",
        ),
        (
            json!({key::MANAGED_BY: kubernetes, key::EXPORTED: "true"}),
            "readiness",
        ),
        (
            json!({key::MANAGED_BY: kubernetes, key::EXPORTED: "true", key::HEADLESS: ""}),
            "pods",
        ),
        (json!({}), "pods"),
        (json!({key::MANAGED_BY: "somebody"}), "pods"),
        (json!({key::MANAGED_BY: controller::CILIUM_MESH}), "none"),
        (
            json!({key::SOURCE_CLUSTER: "east", key::HEADLESS: ""}),
            "none",
        ),
        (json!({key::MIRRORED_SERVICE: "true"}), "readiness"),
        (
            json!({key::MIRRORED_SERVICE: "true", key::MCS_SERVICE: "x"}),
            "none",
        ),
        (
            json!({key::MIRRORED_SERVICE: "false", key::HEADLESS: ""}),
            "none",
        ),
        (json!({key::MCS_SERVICE: "x", key::HEADLESS: ""}), "none"),
    ] {
        let mut with_owner = labels.clone();
        with_owner[owner] = json!("x");
        assert_eq!(
            reader(Kind::EndpointSlice, with_owner),
            expected,
            "{labels}"
        );
    }
    for (labels, expected) in [
        (json!({}), "service"),
        (json!({"app": "web"}), "service"),
        (json!({key::EXPORTED: ""}), "service"),
        (json!({key::MIRRORED_SERVICE: "true"}), "unusable-object"),
        (
            json!({key::MIRRORED_SERVICE: "true", key::EXPORTED: "true"}),
            "unusable-object",
        ),
        (json!({key::MIRRORED_SERVICE: "false"}), "none"),
        (
            json!({key::MIRRORED_SERVICE: "", key::EXPORTED: "true"}),
            "none",
        ),
        (
            json!({key::MCS_SERVICE: "db", key::EXPORTED: "true"}),
            "none",
        ),
    ] {
        assert_eq!(reader(Kind::Service, labels.clone()), expected, "{labels}");
    }
    // An object without a name is skipped and reported.
    for kind in Kind::ALL {
        let object = read(kind, &KubeObject::read(r#"{"metadata": {}}"#)).unwrap();
        assert_eq!(reason(&object), Some(ProblemKind::UnusableObject));
    }
}

#[test]
fn ports_without_srv_form_are_dropped() {
    let ports = |ports: Value| {
        let object = endpoint_mirror_of(|s| s["spec"]["ports"] = ports);
        let mirror = item(object);
        let label = |port: &Port| (port.number, port.protocol.label());
        mirror.ports.iter().map(label).collect::<Vec<_>>()
    };
    assert_eq!(
        ports(json!([
            {"port": 1},
            {"port": 2, "protocol": "TCP"},
            {"port": 3, "protocol": "UDP"},
            {"port": 4, "protocol": "SCTP"},
            {"port": 65535},
        ])),
        [
            (1, "tcp"),
            (2, "tcp"),
            (3, "udp"),
            (4, "sctp"),
            (65535, "tcp")
        ]
    );
    let none =
        json!([{"port": 0}, {"port": -1}, {"port": 65536}, {"port": 5, "protocol": "QUIC"}, {}]);
    assert_eq!(ports(none), []);
}

#[test]
fn slice_needs_service_label_and_ip_addresses() {
    let slice = |labels: Value, address_type: &str| {
        let slice = json!({
            "metadata": {"namespace": "prod", "name": "db-1", "labels": labels},
            "addressType": address_type,
        });
        reason(&object(Kind::EndpointSlice, &slice))
    };
    assert_eq!(slice(json!({key::SERVICE_NAME: "db"}), "IPv4"), None);
    assert_eq!(slice(json!({}), "IPv4"), Some(ProblemKind::UnusableObject));
    // Host names are not addresses.
    let fqdn = slice(json!({key::SERVICE_NAME: "db"}), "FQDN");
    assert_eq!(fqdn, Some(ProblemKind::UnusableObject));
}

#[test]
fn gateway_is_up_if_one_address_is_ready() {
    let ready = |conditions: &[bool]| {
        let endpoints: Vec<Value> = conditions
            .iter()
            .map(|ready| json!({"addresses": ["198.51.100.10"], "conditions": {"ready": ready}}))
            .collect();
        let slice = json!({
            "metadata": {"namespace": "prod", "name": "db-0-east-1",
                "labels": {key::SERVICE_NAME: "db-0-east", key::HEADLESS_MIRROR: "db-east",
                    key::MIRRORED_SERVICE: "true"}},
            "addressType": "IPv4",
            "endpoints": endpoints,
        });
        let Object::Slice(Slice {
            content: SliceContent::Ready(ready),
            ..
        }) = object(Kind::EndpointSlice, &slice)
        else {
            panic!()
        };
        ready
    };
    for (conditions, expected) in [
        (&[][..], None),
        (&[true], Some(true)),
        (&[false], Some(false)),
        (&[false, true], Some(true)),
        (&[false, false], Some(false)),
    ] {
        assert_eq!(ready(conditions), expected, "{conditions:?}");
    }
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
    let list = |hosts| {
        let ports = sql(15432);
        SliceContent::Hosts(Box::new(ListedHosts { hosts, ports }))
    };
    let (zero, one) = (host("db-0", "10.96.0.1"), host("db-1", "10.96.0.2"));
    let of_mirror = |content| {
        Object::Slice(Slice {
            owner: intern("db-east"),
            content,
        })
    };
    let hosts = [
        listed("db-0", Some("10.96.0.1")),
        listed("db-1", Some("10.96.0.2")),
    ];
    let both = of_mirror(list(hosts.into()));
    // The order does not matter, and each host occurs once.
    assert_eq!(slice(headless(), json!([zero, one])), both);
    assert_eq!(slice(headless(), json!([one, zero, one])), both);
    let unusable = slice(
        headless(),
        json!([host("db-0", "127.0.0.1"), host("DB", "10.96.0.3"), {"addresses": ["198.51.100.10"]}]),
    );
    let hosts = [listed("db-0", None)];
    assert_eq!(unusable, of_mirror(list(hosts.into())));
    // These slices were overwritten with a gateway address, are empty, or belong to an endpoint mirror.
    let of_endpoint = json!({key::MIRRORED_SERVICE: "true", key::HEADLESS_MIRROR: "db-east"});
    let gateway = json!([{"addresses": ["198.51.100.10"], "conditions": {"ready": false}}]);
    for (labels, endpoints, ready) in [
        (headless(), gateway, Some(false)),
        (headless(), json!([]), None),
        (of_endpoint, json!([zero]), Some(false)),
    ] {
        let expected = of_mirror(SliceContent::Ready(ready));
        assert_eq!(slice(labels, endpoints), expected);
    }
}

#[test]
fn annotation_value_is_truncated_in_reports() {
    assert_eq!(shorten("soon"), "soon");
    assert_eq!(shorten(&"ä".repeat(200_000)), "ä".repeat(40));
}

#[test]
fn headless_service_may_have_a_selector() {
    for (selector, expected) in [
        (Value::Null, false),
        (json!({}), false),
        (json!({"app": "db"}), true),
    ] {
        let mut service = testing::local("prod", "db", &[])[0].clone();
        service["spec"]["selector"] = selector;
        let form = item(object(Kind::Service, &service)).own().unwrap().form;
        let headless = crate::model::OwnForm::Headless {
            has_selector: expected,
        };
        assert_eq!(form, headless);
    }
}

#[test]
fn unknown_annotation_with_the_prefix_of_this_server_is_reported() {
    let unreadable = |annotations: Value| {
        let object = json!({"metadata": {"annotations": annotations}}).to_string();
        ServiceSettings::of_own(&KubeObject::read(&object)).unreadable
    };
    let known = key::SETTINGS.join(", ");
    for (name, reason) in [
        (
            "fail-over",
            "no annotation has this name; the nearest is global-dns/failover".to_owned(),
        ),
        (
            "something-else-altogether",
            format!("the annotations are {known}"),
        ),
    ] {
        let name = format!("global-dns/{name}");
        let mut annotations = json!({key::TTL: "5", "example.org/x": "y"});
        annotations[&name] = json!("east");
        assert_eq!(unreadable(annotations), [&*format!("{name}: {reason}")]);
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
        ignored: vec![format!("{}=east", key::FAILOVER).into()],
        ..ServiceSettings::default()
    };
    assert_eq!(
        ServiceSettings::of_mirror(&KubeObject::read(&object)),
        expected
    );
}

#[test]
fn slice_of_an_ordinary_service_is_not_kept() {
    let [_, slice] = testing::local("prod", "db", &[("db-0", "192.0.2.1", true)]);
    let reduced = |object: &Value| {
        let json = object.to_string();
        reduce(Kind::EndpointSlice, &KubeObject::read(&json))
    };
    let (key, object) = reduced(&slice).unwrap();
    assert_eq!(key, KubeObject::read(&slice.to_string()).key().unwrap());
    assert_eq!(endpoints(object).endpoints.len(), 1);
    let mut ordinary = slice;
    ordinary["metadata"]["labels"] = json!({
        key::SERVICE_NAME: "db",
        key::MANAGED_BY: controller::KUBERNETES,
    });
    assert_eq!(reduced(&ordinary), None);
}

#[test]
fn problem_of_a_skipped_object_can_be_changed() {
    let mut skipped = endpoint_mirror_of(|s| s["spec"] = json!({}));
    let problem = skipped.skipped_mut().unwrap();
    *problem = Problem::new(ProblemKind::LeftOut, "");
    assert_eq!(reason(&skipped), Some(ProblemKind::LeftOut));
    assert!(endpoint_mirror_of(|_| ()).skipped_mut().is_none());
}

//! Local members (rule M5): headless Services of the local cluster.

use serde_json::json;
use support::objects::{Local, Manifest, local, mirror, objects, with_cluster_ip};
use support::server::Server;

use super::{check_outcomes, conflicts, expected, problems_of_kind};

/// Returns local services: `db` has a mirror, `solo` is exported, `plain` has neither property.
fn sample() -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true))
        .with(
            local("prod", "solo")
                .exported()
                .endpoint(Some("solo-0"), "192.0.2.2", true),
        )
        .with(local("prod", "plain").endpoint(Some("plain-0"), "192.0.2.3", true))
        .with(local("shop", "db").endpoint(Some("db-0"), "192.0.2.4", true))
}

#[test]
fn each_mode_selects_its_local_members() {
    let names = [
        "db.prod.global. A",
        "hub.db.prod.global. A",
        "solo.prod.global. A",
        "plain.prod.global. A",
        "db.shop.global. A",
        "plain.global. A",
    ];
    for (flags, outcomes) in [
        (
            &[][..],
            [
                "10.96.1.1 192.0.2.1",
                "192.0.2.1",
                "192.0.2.2",
                "NXDOMAIN",
                "NXDOMAIN",
                "NXDOMAIN",
            ],
        ),
        (
            &["--local-members=matching"],
            [
                "10.96.1.1 192.0.2.1",
                "192.0.2.1",
                "192.0.2.2",
                "NXDOMAIN",
                "NXDOMAIN",
                "NXDOMAIN",
            ],
        ),
        (
            &["--local-members=exported"],
            [
                "10.96.1.1",
                "NXDOMAIN",
                "192.0.2.2",
                "NXDOMAIN",
                "NXDOMAIN",
                "NXDOMAIN",
            ],
        ),
        (
            &["--local-members=off"],
            [
                "10.96.1.1",
                "NXDOMAIN",
                "NXDOMAIN",
                "NXDOMAIN",
                "NXDOMAIN",
                "NXDOMAIN",
            ],
        ),
    ] {
        let server = Server::with_objects(sample(), &[flags, &["--cluster-name=hub"]].concat());
        let cases: Vec<(&str, &str)> = names.into_iter().zip(outcomes).collect();
        check_outcomes(&server, &format!("{flags:?}"), &cases);
    }
}

#[test]
fn local_service_joins_because_of_a_mirror_without_endpoints() {
    let server = Server::with_objects(
        objects()
            .with(mirror("prod", "db", "east"))
            .with(local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true)),
        &["--cluster-name=hub"],
    );
    check_outcomes(
        &server,
        "a mirror without endpoints",
        &[
            ("db.prod.global. A", "192.0.2.1"),
            ("db-0.hub.db.prod.global. A", "192.0.2.1"),
            ("east.db.prod.global. A", "NXDOMAIN"),
        ],
    );
}

#[test]
fn exported_member_remains_without_remote_members() {
    let own = || local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true);
    let remote = || mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
    for (own, alone) in [(own().exported(), "192.0.2.1"), (own(), "NXDOMAIN")] {
        let own = Manifest::from(own);
        let flags = ["--cluster-name=hub"];
        let server = Server::with_objects(objects().with(remote()).with(own.clone()), &flags);
        let names = ["db.prod.global. A", "db.global. A"];
        for name in names {
            assert_eq!(server.outcome(name), "10.96.1.1 192.0.2.1");
        }
        server.rewrite(&own.text());
        for name in names {
            server.wait_for_outcome(name, alone);
        }
    }
}

/// Each cluster is answered by its best candidate (rule K1). The pods of another cluster hide nothing.
#[test]
fn service_with_a_cluster_ip_joins_a_headless_service_if_it_is_exported() {
    let service = |own: Local| {
        let own = own.endpoint(Some("db-0"), "192.0.2.1", true);
        let mut manifest = Manifest::from(own);
        manifest.0[0] = with_cluster_ip(manifest.0[0].take(), "10.96.9.9");
        manifest
    };
    let with_mirror = |service: Manifest| {
        let east = mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]);
        Server::with_objects(service.with(east), &["--cluster-name=hub"])
    };
    let exported = service(local("prod", "db").exported());
    let server = with_mirror(exported.clone());
    check_outcomes(
        &server,
        "exported, with a mirror",
        &[
            ("db.prod.global. A", "10.96.1.1 10.96.9.9"),
            ("hub.db.prod.global. A", "10.96.9.9"),
            ("db-0.hub.db.prod.global. A", "NXDOMAIN"),
        ],
    );
    // SRV targets and liveness of the two differ.
    let [kind] = &problems_of_kind(&server, "kind")[..] else {
        panic!("{}", server.api("/api/v1/table"));
    };
    assert_eq!(
        json!([kind["level"], kind["detail"]]),
        json!(["note", "a cluster IP in hub; pods in east"])
    );
    let server = with_mirror(service(local("prod", "db")));
    check_outcomes(
        &server,
        "not exported, with a mirror",
        &[
            ("db.prod.global. A", "10.96.1.1"),
            ("hub.db.prod.global. A", "NXDOMAIN"),
        ],
    );
    let server = Server::with_objects(exported, &["--cluster-name=hub"]);
    check_outcomes(
        &server,
        "exported, alone",
        &[
            ("db.prod.global. A", "10.96.9.9"),
            ("db-0.hub.db.prod.global. A", "NXDOMAIN"),
        ],
    );
}

#[test]
fn each_ready_address_of_all_slices_joins_once_with_the_ports_of_its_slice() {
    let ports = &[("sql", "TCP", 15432)];
    let mut manifest = Manifest::from(
        local("prod", "db")
            .exported()
            .ports(ports)
            .endpoint(Some("db-0"), "192.0.2.1", true)
            .endpoint(Some("db-0"), "2001:db8::1", true)
            .endpoint(Some("db-1"), "192.0.2.2", false)
            .endpoint(None, "192.0.2.3", true)
            .endpoint(None, "2001:db8::3", true),
    );
    // The Service has another port than its slices.
    manifest.0[0]["spec"]["ports"][0]["port"] = json!(5432);
    // A second slice repeats an address and adds one without a ready condition.
    let mut second = manifest.0[1].clone();
    second["metadata"]["name"] = json!("db-second");
    let more = json!({"addresses": ["192.0.2.4"], "hostname": "db-4"});
    second["endpoints"] = json!([manifest.0[1]["endpoints"][0], more]);
    manifest.0.push(second);
    let server = Server::with_objects(manifest, &["--cluster-name=hub"]);
    let srv = |host: &str| format!("0 10 15432 {host}.hub.db.prod.global.");
    let hosts = ["192-0-2-3", "2001-db8--3", "db-0", "db-4"]
        .map(srv)
        .join(" ");
    check_outcomes(
        &server,
        "slices",
        &[
            ("db.prod.global. A", "192.0.2.1 192.0.2.3 192.0.2.4"),
            ("db.prod.global. AAAA", "2001:db8::1 2001:db8::3"),
            ("db-0.hub.db.prod.global. A", "192.0.2.1"),
            ("db-0.hub.db.prod.global. AAAA", "2001:db8::1"),
            ("192-0-2-3.hub.db.prod.global. A", "192.0.2.3"),
            ("2001-db8--3.hub.db.prod.global. AAAA", "2001:db8::3"),
            ("db-1.hub.db.prod.global. A", "NXDOMAIN"),
            ("_sql._tcp.db.prod.global. SRV", &hosts),
        ],
    );
    assert_eq!(server.api("/api/v1/table")["conflicts"], json!([]));
}

#[test]
fn slices_of_a_service_without_selector_are_members() {
    let manifest =
        local("prod", "db")
            .exported()
            .without_selector()
            .endpoint(Some("db-0"), "192.0.2.1", true);
    let server = Server::with_objects(manifest, &["--cluster-name=hub"]);
    assert_eq!(server.outcome("db-0.hub.db.prod.global. A"), "192.0.2.1");
}

#[test]
fn slices_with_endpoints_of_other_clusters_are_not_local_members() {
    let manager = "endpointslice.kubernetes.io/managed-by";
    let cilium = (manager, "endpointslice-mesh-controller.cilium.io");
    let submariner = (manager, "lighthouse-agent.submariner.io");
    let source = ("multicluster.kubernetes.io/source-cluster", "north");
    let mcs = ("multicluster.kubernetes.io/service-name", "db");
    // Cilium copies the headless label of the Service, as Kubernetes does; others do not.
    for has_selector in [true, false] {
        let own = || {
            let own = local("prod", "db").exported();
            let own = own.endpoint(Some("db-0"), "192.0.2.1", true);
            let own = if has_selector {
                own
            } else {
                own.without_selector()
            };
            Manifest::from(own)
        };
        for labels in [
            &[cilium][..],
            &[cilium, source],
            &[submariner, source],
            &[submariner, mcs],
            &[mcs],
            &[source],
        ] {
            let mut manifest = own();
            let mut foreign = manifest.0[1].clone();
            foreign["metadata"]["name"] = json!("db-of-north");
            foreign["endpoints"][0]["addresses"] = json!(["203.0.113.9"]);
            for (name, value) in labels {
                foreign["metadata"]["labels"][name] = json!(value);
            }
            manifest.0.push(foreign);
            let server = Server::with_objects(manifest, &["--cluster-name=hub"]);
            let outcome = server.outcome("db.prod.global. A");
            assert_eq!(outcome, "192.0.2.1", "selector {has_selector}, {labels:?}");
            assert_eq!(
                server.api("/api/v1/table")["conflicts"],
                json!([]),
                "{labels:?}"
            );
        }
        // Slices of any other controller belong to the local cluster.
        let mut manifest = own();
        manifest.0[1]["metadata"]["labels"][manager] = json!("somebody.example");
        let server = Server::with_objects(manifest, &["--cluster-name=hub"]);
        assert_eq!(server.outcome("db.prod.global. A"), "192.0.2.1");
    }
}

#[test]
fn slices_without_their_service_create_no_name() {
    let mut manifest = Manifest::from(local("prod", "db").exported().endpoint(
        Some("db-0"),
        "192.0.2.1",
        true,
    ));
    manifest.0.remove(0);
    let server = Server::with_objects(manifest, &[]);
    assert_eq!(server.outcome("db.prod.global. A"), "NXDOMAIN");
}

#[test]
fn unready_endpoint_is_listed_but_not_answered() {
    let manifest = local("prod", "db")
        .exported()
        .endpoint(Some("db-0"), "192.0.2.1", false);
    let server = Server::with_objects(manifest, &["--cluster-name=hub"]);
    assert_eq!(server.outcome("db.prod.global. A"), "NXDOMAIN");
    let report = server.api("/api/v1/table");
    let endpoint = &report["services"][0]["endpoints"][0];
    assert_eq!(
        (&endpoint["hostname"], &endpoint["state"]),
        (&json!("db-0"), &json!("not-ready"))
    );
}

#[test]
fn member_that_is_not_exported_is_reported() {
    let own = || local("prod", "db").endpoint(Some("db-0"), "192.0.2.1", true);
    let with = |own: Local| {
        objects()
            .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
            .with(own)
    };
    for (manifest, flags, reported) in [
        (with(own()), &[][..], &[("not-exported", "prod/db")][..]),
        (with(own().exported()), &[], &[]),
        (with(own()), &["--local-members=off"], &[]),
    ] {
        let server = Server::with_objects(manifest, flags);
        assert_eq!(conflicts(&server), expected(reported), "{flags:?}");
    }
}

//! KEP-1645, the Multi-Cluster Services API: its DNS specification, version 1.0.0, section by section, and the DNS cases of
//! the API's conformance suite. A comment in quotation marks is text of the specification.
//!
//! The objects are Linkerd's mirrors and Services of this cluster. The zone has the grammar `mcs`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::differences::set;
use support::objects::{
    Manifest, exported, federated, gateway_mirror, local, mirror, nameless_port, objects,
};
use support::server::Server;
use support::wire::Transport;

use crate::conformance::cases::{Expectation, answer, check, check_with_edns_and_without, refused};

const SOA: &str = "clusterset.local. 5 IN SOA ns.dns.clusterset.local. hostmaster.clusterset.local. SERIAL 7200 1800 \
                   86400 5";

/// The endpoints of `db.prod` that are ready: cluster, host, address.
const DB: [(&str, &str, &str); 5] = [
    ("hub", "db-0", "10.1.0.10"),
    ("hub", "10-1-0-20", "10.1.0.20"),
    ("east", "db-0", "10.96.2.10"),
    ("east", "db-1", "10.96.2.11"),
    ("west", "db-0", "10.96.3.10"),
];

fn serve(objects: Manifest) -> Server {
    let flags = [
        "--zone=clusterset.local=mcs",
        "--cluster-name=hub",
        "answers.nsAddresses=[192.0.2.53, '2001:db8::53']",
    ];
    Server::with_objects(objects, &flags)
}

/// `db.prod`: pods of three clusters.
fn pods() -> Manifest {
    let ports = [("sql", "TCP", 26257), ("http", "TCP", 8080)];
    let of_hub = local("prod", "db")
        .exported()
        .ports(&ports)
        .endpoint(Some("db-0"), "10.1.0.10", true)
        .endpoint(None, "10.1.0.20", true)
        .endpoint(Some("db-1"), "10.1.0.11", false);
    let of_east = mirror("prod", "db", "east")
        .ports(&ports)
        .endpoint("db-0", &["10.96.2.10"])
        .endpoint("db-1", &["10.96.2.11"]);
    let of_west = mirror("prod", "db", "west")
        .ports(&ports)
        .endpoint("db-0", &["10.96.3.10"]);
    objects().with(of_hub).with(of_east).with(of_west)
}

/// `web.prod`: cluster IPs of three clusters. `api.prod`: one address of all clusters.
fn cluster_ips() -> Manifest {
    let ports = json!([{"name": "http", "port": 80}, {"name": "https", "port": 443}]);
    objects()
        .with(with_ports("prod", "web", "east", "10.96.40.1", &ports))
        .with(with_ports("prod", "web", "west", "10.96.40.2", &ports))
        .with(exported("prod", "web", "10.96.40.3"))
        .with(federated("prod", "api", "10.96.40.9", "api@east,api@west"))
}

/// Services with addresses of both families. The only port of each has no name.
fn dual_stack() -> Manifest {
    let database = mirror("dual", "db", "east")
        .all_ports(vec![nameless_port("TCP", 26257)])
        .endpoint("db-0", &["10.96.2.20", "2001:db8::2:20"])
        .endpoint("db-1", &["10.96.2.21"]);
    let mut web = with_ports("dual", "web", "east", "10.96.40.8", &json!([{"port": 80}]));
    web.0[0]["spec"]["clusterIPs"] = json!(["10.96.40.8", "2001:db8::4008"]);
    objects().with(database).with(web)
}

/// Services with other ports in each cluster.
fn conflicting_ports() -> Manifest {
    let of_east =
        json!([{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
    let of_west = json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]);
    objects()
        .with(
            mirror("ports", "db", "east")
                .ports(&[("http", "TCP", 8080), ("dns", "UDP", 5300)])
                .endpoint("db-0", &["10.96.2.30"]),
        )
        .with(
            mirror("ports", "db", "west")
                .ports(&[
                    ("http", "TCP", 9080),
                    ("dns", "TCP", 5300),
                    ("metrics", "TCP", 9090),
                ])
                .endpoint("db-0", &["10.96.3.30"]),
        )
        .with(with_ports("ports", "web", "east", "10.96.40.5", &of_east))
        .with(with_ports("ports", "web", "west", "10.96.40.6", &of_west))
}

/// Returns a mirror with a cluster IP and these ports. Its gateway is up.
fn with_ports(
    namespace: &str,
    service: &str,
    cluster: &str,
    address: &str,
    ports: &Value,
) -> Manifest {
    let mirror = gateway_mirror(namespace, service, cluster, address);
    let mut service = mirror.service();
    service["spec"]["ports"] = ports.clone();
    objects().with(service).with(mirror.slice(true))
}

/// NOERROR without records.
fn nodata() -> Expectation {
    answer("").authority(SOA)
}

fn nxdomain() -> Expectation {
    crate::conformance::cases::nxdomain().authority(SOA)
}

/// Address records of a name below `svc.clusterset.local.`
fn addresses(name: &str, addresses: &[&str]) -> String {
    let record = |address: &&str| {
        let rtype = if address.contains(':') { "AAAA" } else { "A" };
        format!("{name}.svc.clusterset.local. 5 IN {rtype} {address}\n")
    };
    addresses.iter().map(record).collect()
}

/// SRV records of a name, with ports and targets below `svc.clusterset.local.`
fn srv(name: &str, targets: &[(u16, &str)]) -> String {
    let record = |(port, target): &(u16, &str)| {
        format!(
            "{name}.svc.clusterset.local. 5 IN SRV 0 10 {port} {target}.svc.clusterset.local.\n"
        )
    };
    targets.iter().map(record).collect()
}

/// Sends questions about names below `svc.clusterset.local.`
fn check_below_svc<Q: AsRef<str>>(server: &Server, questions: &[(Q, Expectation)]) {
    let whole = |(question, _): &(Q, Expectation)| {
        question.as_ref().replace(' ', ".svc.clusterset.local. ")
    };
    let texts: Vec<String> = questions.iter().map(whole).collect();
    let questions = texts.iter().zip(questions);
    let questions = questions.map(|(text, (_, expect))| (text.as_str(), expect.clone()));
    check_with_edns_and_without(server, &questions.collect::<Vec<_>>());
}

// === 2.2 Record for Schema Version ===

/// "Question Example: `dns-version.clusterset.local. IN TXT`; Answer Example: `dns-version.clusterset.local. 28800 IN TXT
/// “1.0.0”`". The TTL is that of the zone.
#[test]
fn s2_2_the_zone_has_the_schema_version_of_the_specification() {
    let dns_version = answer("dns-version.clusterset.local. 5 IN TXT \"1.0.0\"");
    check(
        &serve(pods()),
        &[
            // The version.
            ("dns-version.clusterset.local. TXT", dns_version),
            // No address.
            ("dns-version.clusterset.local. A", nodata()),
            // No other name.
            ("dns-versions.clusterset.local. TXT", nxdomain()),
            // Only at the apex.
            ("dns-version.prod.svc.clusterset.local. TXT", nxdomain()),
        ],
    );
}

// === 2.3 Records for a Service with ClusterSetIP ===

/// "If the `<clusterset-ip>` is an IPv4 address, an `A` record of the following form must exist. … If the
/// `<clusterset-ip>` is an IPv6 address, an `AAAA` record of the following form must exist." "For Service objects that have
/// dual-stack networking enabled, both `A` and `AAAA` records must be created to cover both IPv4 and IPv6 assigned
/// ClusterSetIPs." Linkerd has one address for each cluster, or one of a federated service.
///
/// Conformance suite: "A DNS lookup of the `<service>.<ns>.svc.clusterset.local` domain for a ClusterIP service should
/// resolve to the clusterset IP".
#[test]
fn s2_3_1_a_service_resolves_to_its_cluster_ips() {
    let server = serve(cluster_ips().with(dual_stack()));
    let is = |name: &str, all: &[&str]| answer(&addresses(name, all));
    let web = ["10.96.40.1", "10.96.40.2", "10.96.40.3"];
    check_below_svc(
        &server,
        &[
            ("web.prod A", is("web.prod", &web)),
            ("web.prod AAAA", nodata()),
            ("api.prod A", is("api.prod", &["10.96.40.9"])),
            ("web.dual A", is("web.dual", &["10.96.40.8"])),
            ("web.dual AAAA", is("web.dual", &["2001:db8::4008"])),
            ("webs.prod A", nxdomain()),
            ("web.prods A", nxdomain()),
        ],
    );
}

/// "For each port in an exported Service with name `<port>` and number `<port-number>` using protocol `<proto>`, an `SRV`
/// record of the following form must exist. `_<port>._<proto>.<service>.<ns>.svc.<clusterset-zone>. <ttl> IN SRV <weight>
/// <priority> <port-number> <service>.<ns>.svc.<clusterset-zone>.`" "Unnamed ports do not have an `SRV` record."
///
/// Conformance suite: "A DNS SRV query of the `<service>.<ns>.svc.clusterset.local` domain for a ClusterIP service should
/// return valid SRV records": one for each port, with the name itself as target.
#[test]
fn s2_3_2_srv_of_a_service_with_cluster_ips_targets_its_own_name() {
    let server = serve(cluster_ips().with(dual_stack()).with(conflicting_ports()));
    let is = |owner: &str, ports: &[u16], target: &str, additional: &[&str]| {
        let targets: Vec<(u16, &str)> = ports.iter().map(|port| (*port, target)).collect();
        answer(&srv(owner, &targets)).additional(&addresses(target, additional))
    };
    let web = |owner: &str, ports: &[u16]| {
        let all = ["10.96.40.1", "10.96.40.2", "10.96.40.3"];
        is(owner, ports, "web.prod", &all)
    };
    let of_ports =
        |owner: &str, ports: &[u16]| is(owner, ports, "web.ports", &["10.96.40.5", "10.96.40.6"]);
    let both = ["10.96.40.8", "2001:db8::4008"];
    check_below_svc(
        &server,
        &[
            // Equal records of several clusters are one.
            ("_http._tcp.web.prod SRV", web("_http._tcp.web.prod", &[80])),
            (
                "_https._tcp.web.prod SRV",
                web("_https._tcp.web.prod", &[443]),
            ),
            ("web.prod SRV", web("web.prod", &[80, 443])),
            ("_http._udp.web.prod SRV", nxdomain()),
            ("_smtp._tcp.web.prod SRV", nxdomain()),
            ("_http._tcp.web.prod A", nodata()),
            ("_tcp.web.prod SRV", nodata()),
            (
                "_http._tcp.api.prod SRV",
                is("_http._tcp.api.prod", &[80], "api.prod", &["10.96.40.9"]),
            ),
            // The only port has no name.
            ("web.dual SRV", is("web.dual", &[80], "web.dual", &both)),
            ("_tcp.web.dual SRV", nxdomain()),
            ("_80._tcp.web.dual SRV", nxdomain()),
            // Only one cluster has this port. The target has the addresses of all.
            (
                "_dns._udp.web.ports SRV",
                of_ports("_dns._udp.web.ports", &[53]),
            ),
            ("_dns._tcp.web.ports SRV", nxdomain()),
            ("web.ports SRV", of_ports("web.ports", &[53, 80, 9090])),
        ],
    );
}

/// "`PTR` records are not specified in any way for multicluster DNS and `PTR` records ending with the `<clusterset-zone>`
/// are NOT required."
#[test]
fn s2_3_3_and_s2_4_3_there_are_no_ptr_records() {
    let refused = refused().option("EDE 20");
    let questions = [
        ("1.40.96.10.in-addr.arpa. PTR", refused.clone()),
        ("10.2.96.10.in-addr.arpa. PTR", refused),
    ];
    check_with_edns_and_without(&serve(pods().with(cluster_ips())), &questions);
}

/// "ClusterSetIP Services MUST NOT have a record disambiguating to a single cluster's backends, ex.
/// `<clusterid>.<svc>.<ns>.svc.<clusterset-zone>`."
#[test]
fn s2_3_4_a_service_with_cluster_ips_has_no_record_of_one_cluster() {
    let server = serve(cluster_ips());
    let names = [
        "hub.web.prod",
        "east.web.prod",
        "west.web.prod",
        "east.api.prod",
        "10-96-40-1.east.web.prod",
    ];
    for rtype in ["A", "AAAA", "SRV", "TXT"] {
        check_below_svc(
            &server,
            &names.map(|name| (format!("{name} {rtype}"), nxdomain())),
        );
    }
}

// === 2.4 Records for a Multicluster Headless Service ===

/// "for a subset of ready endpoints accessible across the cluster set with the IPv4 address `<endpoint-ip>`, the following
/// records must exist. `<service>.<ns>.svc.<clusterset-zone>. IN A <endpoint-ip>`"
///
/// Conformance suite: "A DNS query of the `<service>.<ns>.svc.clusterset.local` domain for a headless service should
/// return the ready endpoint addresses of all the backing pods".
#[test]
fn s2_4_1_a_headless_service_resolves_to_the_ready_endpoints_of_all_clusters() {
    let server = serve(pods().with(dual_stack()));
    let ready = DB.map(|(_, _, address)| address);
    check_below_svc(
        &server,
        &[
            ("db.prod A", answer(&addresses("db.prod", &ready))),
            ("db.prod AAAA", nodata()),
            (
                "db.dual A",
                answer(&addresses("db.dual", &["10.96.2.20", "10.96.2.21"])),
            ),
            (
                "db.dual AAAA",
                answer(&addresses("db.dual", &["2001:db8::2:20"])),
            ),
        ],
    );
}

/// "There must also be an `A` record of the following form for each ready endpoint in the same subset with hostname of
/// `<hostname>`, member cluster ID of `<clusterid>`, and IPv4 address `<endpoint-ip>`.
/// `<hostname>.<clusterid>.<service>.<ns>.svc.<clusterset-zone>. <ttl> IN A <endpoint-ip>`", and the same for `AAAA`.
///
/// 2.1: "hostname = … a) the value of the endpoint's `hostname` field, or b) a unique, system-assigned identifier for the
/// endpoint."
///
/// Conformance suite: "A DNS query of the `<hostname>.<clusterid>.<service>.<ns>.svc.clusterset.local` domain for a
/// headless StatefulSet service should return the requested pod's endpoint address".
#[test]
fn s2_4_1_a_host_of_a_headless_service_resolves_to_its_address() {
    let server = serve(pods().with(dual_stack()));
    let hosts = DB.map(|(cluster, host, address)| {
        let name = format!("{host}.{cluster}.db.prod");
        let expect = answer(&addresses(&name, &[address]));
        (format!("{name} A"), expect)
    });
    check_below_svc(&server, &hosts);
    let is = |name: &str, address: &str| answer(&addresses(name, &[address]));
    check_below_svc(
        &server,
        &[
            ("db-0.east.db.prod AAAA", nodata()),
            // Not ready, of another cluster, unknown.
            ("db-1.hub.db.prod A", nxdomain()),
            ("db-1.west.db.prod A", nxdomain()),
            ("db-0.north.db.prod A", nxdomain()),
            ("db-0.east.db.dual A", is("db-0.east.db.dual", "10.96.2.20")),
            (
                "db-0.east.db.dual AAAA",
                is("db-0.east.db.dual", "2001:db8::2:20"),
            ),
            ("db-1.east.db.dual AAAA", nodata()),
        ],
    );
}

/// "If there are no ready endpoints for the headless Service, the answer should be `NXDOMAIN`."
#[test]
fn s2_4_1_a_headless_service_without_ready_endpoints_does_not_exist() {
    let idle = local("prod", "db")
        .exported()
        .endpoint(Some("db-0"), "10.1.0.10", false);
    check_below_svc(
        &serve(cluster_ips().with(idle)),
        &[
            ("db.prod A", nxdomain()),
            ("db.prod AAAA", nxdomain()),
            ("_sql._tcp.db.prod SRV", nxdomain()),
            ("db-0.hub.db.prod A", nxdomain()),
            // The other services of the namespace.
            (
                "api.prod A",
                answer(&addresses("api.prod", &["10.96.40.9"])),
            ),
        ],
    );
}

/// "For each combination of ready endpoint with hostname of `<hostname>`, member cluster ID of `<clusterid>`, and port in
/// the Service with name `<port>` and number `<port-number>` using protocol `<proto>`, an `SRV` record of the following
/// form must exist. `_<port>._<proto>.<service>.<ns>.svc.<clusterset-zone>. <ttl> IN SRV <weight> <priority> <port-number>
/// <hostname>.<clusterid>.<service>.<ns>.svc.<clusterset-zone>.` This implies that if there are N ready endpoints and the
/// Service defines M named ports, there will be N X M `SRV` RRs for the Service."
///
/// Conformance suite: "A DNS SRV query of the `<service>.<ns>.svc.clusterset.local` domain for a headless service should
/// return valid SRV records".
#[test]
fn s2_4_2_srv_of_a_headless_service_has_each_port_of_each_endpoint() {
    let server = serve(pods());
    let targets = |ports: &[u16]| {
        let all = ports.iter().flat_map(|port| {
            DB.map(|(cluster, host, _)| {
                format!("0 10 {port} {host}.{cluster}.db.prod.svc.clusterset.local.")
            })
        });
        set(all.collect::<Vec<_>>())
    };
    let hosts: BTreeSet<String> = DB
        .iter()
        .map(|(cluster, host, address)| {
            let name = format!("{host}.{cluster}.db.prod");
            addresses(&name, &[address]).trim_end().to_owned()
        })
        .collect();
    let cases: [(&str, &[u16], usize); 3] = [
        ("_sql._tcp.db.prod", &[26257], 5),
        ("_http._tcp.db.prod", &[8080], 5),
        ("db.prod", &[26257, 8080], 10),
    ];
    for (name, ports, count) in cases {
        let reply = server.ask(&format!("{name}.svc.clusterset.local. SRV"), Transport::Tcp);
        assert_eq!(reply.answers.len(), count, "{name}");
        assert_eq!(reply.data_set(), targets(ports), "{name}");
        // "The Additional section of the response may include the `A`/`AAAA` records referred to in the `SRV` records."
        let additional = reply.additional.iter().map(ToString::to_string);
        assert_eq!(additional.collect::<BTreeSet<_>>(), hosts, "{name}");
    }
    check_below_svc(
        &server,
        &[
            ("_sql._udp.db.prod SRV", nxdomain()),
            ("_smtp._tcp.db.prod SRV", nxdomain()),
            ("_sql._tcp.db.prod A", nodata()),
        ],
    );
}

/// "Unnamed ports do not have an `SRV` record." The conformance suite expects SRV records of the service itself, also for
/// an unnamed port: one for each endpoint.
#[test]
fn s2_4_2_unnamed_ports_have_no_name() {
    let server = serve(dual_stack());
    let reply = server.ask("db.dual.svc.clusterset.local. SRV", Transport::Tcp);
    let hosts = ["db-0.east", "db-1.east"];
    let targets = hosts.map(|host| format!("0 10 26257 {host}.db.dual.svc.clusterset.local."));
    assert_eq!(reply.data_set(), set(targets));
    check_below_svc(
        &server,
        &[
            ("_tcp.db.dual SRV", nxdomain()),
            ("_26257._tcp.db.dual SRV", nxdomain()),
        ],
    );
}

/// KEP-1645 on ports that differ between clusters: their union.
#[test]
fn s2_4_2_clusters_with_other_ports_are_united() {
    let (east, west) = ("db-0.east.db.ports", "db-0.west.db.ports");
    let of_east = addresses(east, &["10.96.2.30"]);
    let of_west = addresses(west, &["10.96.3.30"]);
    let both = format!("{of_east}{of_west}");
    let is = |owner: &str, targets: &[(u16, &str)], additional: &str| {
        answer(&srv(owner, targets)).additional(additional)
    };
    check_below_svc(
        &serve(conflicting_ports()),
        &[
            (
                "_http._tcp.db.ports SRV",
                is("_http._tcp.db.ports", &[(8080, east), (9080, west)], &both),
            ),
            (
                "_dns._udp.db.ports SRV",
                is("_dns._udp.db.ports", &[(5300, east)], &of_east),
            ),
            (
                "_dns._tcp.db.ports SRV",
                is("_dns._tcp.db.ports", &[(5300, west)], &of_west),
            ),
            (
                "_metrics._tcp.db.ports SRV",
                is("_metrics._tcp.db.ports", &[(9090, west)], &of_west),
            ),
            ("_metrics._udp.db.ports SRV", nxdomain()),
        ],
    );
}

/// "Multicluster Headless Services MUST NOT have a record disambiguating to a single cluster's backends, ex.
/// `<clusterid>.<svc>.<ns>.svc.<clusterset-zone>`." Names of hosts lie below it, so that the name exists without records
/// (RFC 8020).
#[test]
fn s2_4_4_a_headless_service_has_no_record_of_one_cluster() {
    let server = serve(pods());
    for rtype in ["A", "AAAA", "SRV", "TXT", "ANY"] {
        let question = |name: &str| format!("{name} {rtype}");
        let names = ["hub.db.prod", "east.db.prod", "west.db.prod"];
        check_below_svc(&server, &names.map(|name| (question(name), nodata())));
        // `north` has no endpoint.
        let names = ["north.db.prod", "_sql._tcp.east.db.prod"];
        check_below_svc(&server, &names.map(|name| (question(name), nxdomain())));
    }
}

// === The rest of the zone ===

/// The zone has the names of the specification and no others: no names without `svc`, no short names, no ports of hosts.
#[test]
fn other_names_do_not_exist() {
    let server = serve(pods());
    let questions = [
        ("clusterset.local. A", nodata()),
        ("svc.clusterset.local. A", nodata()),
        ("prod.svc.clusterset.local. A", nodata()),
        ("_tcp.db.prod.svc.clusterset.local. SRV", nodata()),
        ("prods.svc.clusterset.local. A", nxdomain()),
        ("pod.clusterset.local. A", nxdomain()),
        ("db.prod.clusterset.local. A", nxdomain()),
        ("prod.clusterset.local. A", nxdomain()),
        ("db.clusterset.local. A", nxdomain()),
        ("db.svc.clusterset.local. A", nxdomain()),
        ("db.prod.pod.clusterset.local. A", nxdomain()),
        ("east.db.prod.clusterset.local. A", nxdomain()),
        ("db-0.east.db.prod.clusterset.local. A", nxdomain()),
        ("db-0.db.prod.svc.clusterset.local. A", nxdomain()),
        (
            "_sql._tcp.db-0.east.db.prod.svc.clusterset.local. SRV",
            nxdomain(),
        ),
        ("sql._tcp.db.prod.svc.clusterset.local. SRV", nxdomain()),
        ("_sql.tcp.db.prod.svc.clusterset.local. SRV", nxdomain()),
        ("x.db-0.east.db.prod.svc.clusterset.local. A", nxdomain()),
        // Conformance suite: "DNS lookups of the `<service>.<ns>.svc.cluster.local` domain for a ClusterIP service should only
        // resolve local services". Another server is authoritative for that zone.
        ("db.prod.svc.cluster.local. A", refused().option("EDE 20")),
    ];
    check_with_edns_and_without(&server, &questions);
}

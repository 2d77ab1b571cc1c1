//! Three linked clusters, `hub`, `east` and `west`, that agree, and faults that make them differ.
//!
//! Each cluster has the service `prod/db` with a pod `db-0`, and the service `prod/web` with a cluster IP. The other clusters
//! mirror both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use serde_json::Value;

use crate::http::get;
use crate::names::Sample;
use crate::objects::{Gateway, Local, Manifest, exported, gateway_mirror, link, local, mirror};

/// The names of the clusters.
pub const CLUSTERS: [&str; 3] = ["hub", "east", "west"];
/// The namespace of Links.
pub const LINKS: &str = "linkerd-multicluster";

const HUB: usize = 0;
const EAST: usize = 1;
const WEST: usize = 2;

/// The clusters.
#[derive(Clone, Debug)]
pub struct Fleet(pub [FleetCluster; 3]);

/// A cluster.
#[derive(Clone, Debug)]
pub struct FleetCluster {
    /// Its name.
    pub name: &'static str,
    /// Flags of its server, beside `--cluster-name`.
    pub flags: Vec<&'static str>,
    /// `--cluster-name`.
    pub own_name: &'static str,
    /// How its documents differ from those of a real server.
    pub alteration: Option<Alteration>,
    db: Local,
    mirrors: Vec<Mirrors>,
    others: Vec<Sample>,
}

/// The texts that are replaced in the documents of a server, with their replacements.
pub type Alteration = &'static [(&'static str, &'static str)];

/// The Link to a cluster and the mirrors of it.
#[derive(Clone, Debug)]
struct Mirrors {
    /// The cluster, as the Link names it.
    cluster: &'static str,
    is_linked: bool,
    samples: Vec<Sample>,
}

/// A fault.
pub struct Fault {
    /// What is wrong.
    pub name: &'static str,
    /// Plants it.
    pub plant: fn(&mut Fleet),
    /// Parts of the only failing line.
    pub line: &'static [&'static str],
    /// A part of its hint.
    pub hint: &'static str,
}

/// A server that passes on the documents of another one, and alters them. It ends with the process.
pub fn altered(server: SocketAddr, alteration: Alteration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || pass_on(stream, server, alteration));
        }
    });
    address
}

fn pass_on(mut stream: TcpStream, server: SocketAddr, alteration: Alteration) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    loop {
        let request = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
        let path = request.split(' ').nth(1)?;
        let page = get(server, path).ok()?;
        let mut body = page.body;
        for (old, new) in alteration {
            body = body.replace(old, new);
        }
        let (status, length) = (page.status, body.len());
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all((head + &body).as_bytes()).ok()?;
    }
}

/// Returns the faults. Each is the only one in its fleet.
pub fn faults() -> Vec<Fault> {
    let fault = |name, plant, line, hint| Fault {
        name,
        plant,
        line,
        hint,
    };
    vec![
        fault(
            "a direction of a link is missing",
            |fleet| fleet.0[WEST].mirrors.retain(|one| one.cluster != "east"),
            &[
                "west has of east: neither a Link nor a mirror",
                "2 services (prod/db, prod/web)",
            ],
            "link east there",
        ),
        fault(
            "two clusters are not linked at all",
            |fleet| {
                fleet.0[WEST].mirrors.retain(|one| one.cluster != "east");
                fleet.0[EAST].mirrors.retain(|one| one.cluster != "west");
            },
            &[
                "2 services (prod/db, prod/web): ",
                "neither a Link nor a mirror",
            ],
            " there: linkerd multicluster link-gen",
        ),
        fault(
            "a Link was deleted and its mirrors are left",
            |fleet| fleet.0[HUB].mirrors_of("east").is_linked = false,
            &["hub has of east: mirrors without a Link"],
            "link the cluster again",
        ),
        fault(
            "a cluster is excluded in one place",
            |fleet| fleet.0[HUB].flags.push("excludeClusters=[west]"),
            &[
                "2 services (prod/db, prod/web): excludeClusters: [west] in hub; default in east and west",
            ],
            "set the same excludeClusters",
        ),
        fault(
            "a link has another name for a cluster",
            |fleet| {
                let mirrors = fleet.0[WEST].mirrors_of("east");
                *mirrors = Mirrors::of("eest", WEST * 10 + EAST);
            },
            &["2 services (prod/db, prod/web): west has of east: neither a Link nor a mirror"],
            "if 'eest' is east, set clusterName: eest in east, or clusterAliases: {eest: east} in west",
        ),
        fault(
            "a server has another name for its own cluster",
            |fleet| fleet.0[EAST].own_name = "local",
            &["has of local: neither a Link nor a mirror"],
            "if 'east' is local, set clusterName: east in east",
        ),
        fault(
            "a pod has another host name in one cluster",
            |fleet| {
                let mirrors = fleet.0[HUB].mirrors_of("west");
                mirrors.samples[0] = mirror("prod", "db", "west")
                    .endpoint("db-7", &["10.96.30.7"])
                    .into();
            },
            &["prod/db: hosts of west: db-0 in east and west; db-7 in hub: not a member at home"],
            "compare the selector of the Link",
        ),
        fault(
            "a mirror of a pod is left that is gone",
            |fleet| {
                let mirrors = fleet.0[HUB].mirrors_of("east");
                let old = mirror("prod", "db", "east").endpoint("db-0", &["10.96.30.1"]);
                mirrors.samples[0] = old.endpoint("db-9", &["10.96.30.9"]).into();
            },
            &["prod/db: hosts of east: none in east and west; db-9 in hub: not a member at home"],
            "compare the selector of the Link",
        ),
        fault(
            "a mirror of a pod is missing",
            |fleet| {
                fleet.0[EAST].db =
                    fleet.0[EAST]
                        .db
                        .clone()
                        .endpoint(Some("db-1"), "192.0.2.31", true);
                let mirrors = fleet.0[WEST].mirrors_of("east");
                let both = mirror("prod", "db", "east").endpoint("db-0", &["10.96.30.1"]);
                mirrors.samples[0] = both.endpoint("db-1", &["10.96.30.2"]).into();
            },
            &[
                "prod/db: hosts of east: none in hub; db-1 in east and west: its mirror controller lost it",
            ],
            "restart the controller, or wait ten minutes",
        ),
        fault(
            "a service is exported in one direction only",
            |fleet| {
                for cluster in [HUB, WEST] {
                    fleet.0[cluster].mirrors_of("east").samples.remove(0);
                }
            },
            &[
                "prod/db: hosts of east: none in hub and west; db-0 in east: no other cluster mirrors it",
            ],
            "selector of the Link",
        ),
        fault(
            "one cluster does not mirror a service",
            |fleet| {
                fleet.0[WEST].mirrors_of("east").samples.remove(1);
            },
            &[
                "prod/web: hosts of east: none in west; the cluster IP in hub and east: not mirrored there",
            ],
            "selector of the Link",
        ),
        fault(
            "a service is mirrored that its cluster does not have as a member",
            |fleet| fleet.0[EAST].others.clear(),
            &[
                "prod/web: hosts of east: none in east; the cluster IP in hub and west: not a member at home",
            ],
            "localMembers",
        ),
        fault(
            "a gateway is down for one cluster",
            |fleet| {
                let mirrors = fleet.0[HUB].mirrors_of("east");
                mirrors.samples = vec![
                    mirror("prod", "db", "east")
                        .endpoint_behind(Gateway::Down, "db-0", &["10.96.30.1"])
                        .into(),
                    gateway_mirror("prod", "web", "east", "10.96.40.1").into(),
                ];
            },
            &["prod/db: hosts of east: db-0 in east and west; db-0 (down) in hub: Gateway is down"],
            "check the gateway",
        ),
        fault(
            "a headless service is mirrored with a cluster IP",
            |fleet| {
                let mirrors = fleet.0[HUB].mirrors_of("west");
                mirrors.samples[0] = gateway_mirror("prod", "db", "west", "10.96.30.1").into();
            },
            &["prod/db: west is reached in different ways: gateway in hub; pods in east and west"],
            "enableHeadlessServices",
        ),
        fault(
            "a port has another name",
            |fleet| {
                let mirrors = fleet.0[WEST].mirrors_of("hub");
                let renamed = mirror("prod", "db", "hub").ports(&[("postgres", "TCP", 26257)]);
                mirrors.samples[0] = renamed.endpoint("db-0", &["10.96.30.1"]).into();
            },
            &["prod/db: port names of hub: postgres/tcp in west; sql/tcp in hub and east"],
            "same names, protocols",
        ),
        fault(
            "a TTL is set in one cluster",
            |fleet| fleet.0[EAST].annotate("global-dns/ttl", "20"),
            &["prod/db: TTL: 20 in east; 5 in hub and west"],
            "global-dns/ttl",
        ),
        fault(
            "a failover order is set in one cluster",
            |fleet| fleet.0[HUB].annotate("global-dns/failover", "hub+east+west"),
            &["prod/db: failover order: none in east and west; east+hub+west in hub"],
            "global-dns/failover",
        ),
        fault(
            "expected clusters are set in one cluster",
            |fleet| fleet.0[WEST].annotate("global-dns/expected-clusters", "hub+east+west"),
            &[
                "prod/db: expected clusters: none in hub and east; ",
                " in west",
            ],
            "global-dns/expected-clusters",
        ),
        fault(
            "a setting cannot be read",
            |fleet| fleet.0[HUB].annotate("global-dns/gateway-down", "never"),
            &["prod/db: in hub: Setting of a service is wrong"],
            "correct it: kubectl edit service db -n prod",
        ),
        fault(
            "a short name has another owner",
            |fleet| fleet.0[WEST].flags.push("shortNames.which=none"),
            &["prod/db: owner of the short name: none in west; prod/db in hub and east"],
            "shortNames",
        ),
        fault(
            "a server has other zones",
            |fleet| fleet.0[WEST].flags.push("--zone=global,mesh.example"),
            &["zones: global. in hub and east; global. mesh.example. in west"],
            "set the same zones",
        ),
        fault(
            "a server has another version",
            |fleet| {
                fleet.0[EAST].alteration =
                    Some(&[(concat!("\"", env!("CARGO_PKG_VERSION"), "\""), "\"0.0.9\"")]);
            },
            &[concat!(
                "versions of global-dns: 0.0.9 in east; ",
                env!("CARGO_PKG_VERSION"),
                " in hub and west"
            )],
            "same version",
        ),
        fault(
            "a mirror has another port number",
            |fleet| {
                let mirrors = fleet.0[WEST].mirrors_of("hub");
                let changed = mirror("prod", "db", "hub").ports(&[("sql", "TCP", 26258)]);
                mirrors.samples[0] = changed.endpoint("db-0", &["10.96.30.1"]).into();
            },
            &["prod/db: port numbers of hub: sql:26257 in east; sql:26258 in west"],
            "a mirror keeps its first ports",
        ),
        fault(
            "a pod is not ready at home, and others answer it",
            |fleet| {
                let db = local("prod", "db").exported();
                fleet.0[EAST].db = db.endpoint(Some("db-0"), "192.0.2.21", false).endpoint(
                    Some("db-1"),
                    "192.0.2.22",
                    true,
                );
                for cluster in [HUB, WEST] {
                    let db = mirror("prod", "db", "east").endpoint("db-0", &["10.96.30.1"]);
                    fleet.0[cluster].mirrors_of("east").samples[0] =
                        db.endpoint("db-1", &["10.96.30.2"]).into();
                }
            },
            &[
                "prod/db: hosts of east: db-0 in hub and west; db-0 (not ready) in east: Pods are not ready",
            ],
            "readiness probe",
        ),
        fault(
            "a replica has no table",
            |fleet| {
                fleet.0[HUB].alteration = Some(&[("\"state\":\"ready\"", "\"state\":\"loading\"")]);
            },
            &["hub: ", ": No complete table yet"],
            "wait for the first list",
        ),
    ]
}

// === impl Fleet ===

impl Fleet {
    /// Returns the clusters without a fault.
    pub fn healthy() -> Self {
        Self([HUB, EAST, WEST].map(FleetCluster::new))
    }
}

// === impl FleetCluster ===

impl FleetCluster {
    fn new(index: usize) -> Self {
        let name = CLUSTERS[index];
        let others = (0..CLUSTERS.len()).filter(|other| *other != index);
        let pod = format!("192.0.2.{}", index * 10 + 11);
        let web = format!("10.96.20.{}", index + 1);
        Self {
            name,
            flags: Vec::new(),
            own_name: name,
            alteration: None,
            db: local("prod", "db")
                .exported()
                .endpoint(Some("db-0"), &pod, true),
            mirrors: others
                .map(|other| Mirrors::of(CLUSTERS[other], index * 10 + other))
                .collect(),
            others: vec![exported("prod", "web", &web).into()],
        }
    }

    fn mirrors_of(&mut self, cluster: &str) -> &mut Mirrors {
        let mut mirrors = self.mirrors.iter_mut();
        mirrors.find(|one| one.cluster == cluster).unwrap()
    }

    fn annotate(&mut self, name: &str, value: &str) {
        self.db = self.db.clone().annotation(name, value);
    }

    fn samples(&self) -> impl Iterator<Item = Sample> {
        let mirrors = self.mirrors.iter().flat_map(|one| one.samples.clone());
        let own = std::iter::once(Sample::from(self.db.clone()));
        own.chain(self.others.clone()).chain(mirrors)
    }

    /// Returns the Links.
    pub fn links(&self) -> Vec<Value> {
        let linked = self.mirrors.iter().filter(|one| one.is_linked);
        let links = linked.map(|one| link(LINKS, one.cluster, one.cluster));
        // Links of clusters that nobody links. Otherwise, the state of Links would be unknown.
        links.chain([link(LINKS, "spare", "spare")]).collect()
    }

    /// Returns the objects, for a server that reads files.
    pub fn objects(&self) -> Manifest {
        let objects: Manifest = self.samples().collect();
        self.links().into_iter().fold(objects, Manifest::with)
    }

    /// Returns the objects to write into a cluster with running controllers, without Links.
    pub fn writes(&self) -> Vec<Value> {
        self.samples().flat_map(|sample| sample.writes()).collect()
    }
}

// === impl Mirrors ===

impl Mirrors {
    /// Returns the mirrors of a cluster. `number` makes their addresses unique in the cluster that has them.
    fn of(cluster: &'static str, number: usize) -> Self {
        let db = mirror("prod", "db", cluster).endpoint("db-0", &[&format!("10.96.31.{number}")]);
        let web = gateway_mirror("prod", "web", cluster, &format!("10.96.41.{number}"));
        Self {
            cluster,
            is_linked: true,
            samples: vec![db.into(), web.into()],
        }
    }
}

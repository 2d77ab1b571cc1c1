//! The table of owner names, `names.txt`, and the objects that produce them. Unit tests, conformance tests, end-to-end
//! tests and comparisons with other name servers share it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::Value;

use super::objects::{
    ClusterIp, Gateway, Local, Manifest, Mirror, exported, federated, flat_mirror, gateway_mirror,
    local, mirror, nameless_port,
};
use super::reply::{Reply, sorted_texts};
use super::wire::{Transport, ask, resolve};

/// Flags of a server that serves the sample and answers as in the table.
pub const FLAGS: [&str; 2] = [
    "--cluster-name=hub",
    "answers.nsAddresses=[192.0.2.53, '2001:db8::53']",
];

/// A question and its expected answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The owner name, with a final dot.
    pub name: String,
    /// The query type.
    pub rtype: String,
    /// The type of the records.
    pub record_type: String,
    /// The expected answer.
    pub answer: Answer,
}

/// An expected answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The RDATA of one RRset with a TTL of 5 seconds.
    Data(BTreeSet<String>),
    /// The name exists but has no records of the type.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// The name is outside the zone.
    Refused,
    /// The name fails.
    ServFail,
}

/// A service of the sample with all its objects.
#[derive(Clone, Debug)]
pub enum Sample {
    /// A service of the local cluster.
    Local(Local),
    /// A mirror of a service of another cluster.
    Mirror(Mirror),
    /// A Service with a cluster IP.
    ClusterIp(ClusterIp),
}

/// Returns the objects of the cluster `hub`, which is linked to `east` and `west`.
pub fn sample() -> Manifest {
    services().into_iter().collect()
}

/// Returns the services of the sample.
pub fn services() -> Vec<Sample> {
    let db = [("sql", "TCP", 26257), ("http", "TCP", 8080)];
    let unknown = Gateway::Unknown;
    vec![
        // A service in three clusters: one local member, two mirrors; IPv4 only; two named ports.
        local("prod", "db")
            .exported()
            .ports(&db)
            .endpoint(Some("db-0"), "192.0.2.10", true)
            .endpoint(Some("db-2"), "192.0.2.12", false)
            .into(),
        mirror("prod", "db", "east")
            .ports(&db)
            .endpoint_behind(unknown, "db-0", &["10.96.10.1"])
            .endpoint("db-1", &["10.96.10.2"])
            .into(),
        mirror("prod", "db", "west")
            .ports(&db)
            .endpoint_behind(unknown, "db-0", &["10.96.20.1"])
            .into(),
        // The gateway to west is down, so these endpoints are answered as a last resort.
        mirror("prod", "cache", "west")
            .ports(&[("redis", "TCP", 6379)])
            .endpoint_behind(Gateway::Down, "cache-0", &["10.96.40.1"])
            .into(),
        // Has a TTL of 20 s, which the Service of this cluster sets. It is not in the table.
        local("prod", "slow")
            .without_selector()
            .annotation("global-dns/ttl", "20")
            .into(),
        mirror("prod", "slow", "east")
            .ports(&[("nfs", "TCP", 2049)])
            .endpoint("slow-0", &["10.96.50.1"])
            .endpoint("slow-1", &["10.96.50.2"])
            .into(),
        // An endpoint without a hostname.
        local("prod", "queue")
            .exported()
            .ports(&[("amqp", "TCP", 5672)])
            .endpoint(None, "192.0.2.30", true)
            .into(),
        // A single endpoint that is not ready.
        local("prod", "idle")
            .exported()
            .ports(&[("http", "TCP", 80)])
            .endpoint(Some("idle-0"), "192.0.2.40", false)
            .into(),
        // Dual stack; a TCP and a UDP port.
        mirror("shop", "web", "east")
            .ports(&[("https", "TCP", 443), ("quic", "UDP", 8443)])
            .endpoint("web-0", &["10.96.30.1", "2001:db8::31"])
            .into(),
        // IPv6 only; one port without a name.
        mirror("shop", "six", "west")
            .all_ports(vec![nameless_port("TCP", 9000)])
            .endpoint("six-0", &["2001:db8::61"])
            .into(),
        // Mirrors with cluster IPs, of which one has no ready endpoint.
        gateway_mirror("prod", "pay", "east", "10.96.60.1").into(),
        gateway_mirror("prod", "pay", "west", "10.96.60.2")
            .without_ready_endpoint()
            .into(),
        exported("prod", "pay", "10.96.60.3").into(),
        flat_mirror("prod", "api", "east", "10.96.61.1").into(),
        flat_mirror("prod", "api", "west", "10.96.61.2").into(),
        federated("prod", "site", "10.96.62.1", "site@east,site@west").into(),
        // A headless mirror without endpoints, in a namespace without other services.
        mirror("spare", "void", "west")
            .ports(&[("http", "TCP", 80)])
            .into(),
    ]
}

/// Reads the table.
pub fn cases() -> Vec<Case> {
    let mut origins = Vec::new();
    let mut cases = Vec::new();
    for line in lines(include_str!("names.txt")) {
        match line.strip_prefix("$ORIGIN ") {
            Some(origin) => origins = self::origins(origin),
            None => cases.extend(origins.iter().map(|origin| Case::read(&line, origin))),
        }
    }
    assert!(cases.len() > 200, "only {} cases", cases.len());
    cases
}

/// Returns the lines of a table without comments. Joins continued lines.
pub(crate) fn lines(table: &str) -> Vec<String> {
    let whole = table.replace("\\\n", " ");
    let lines = whole.lines().map(str::trim_end);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Expands an origin. SERVICE.NAMESPACE becomes the canonical and the short name.
pub(crate) fn origins(origin: &str) -> Vec<String> {
    match origin.split_once('.') {
        Some((service, namespace)) if !origin.ends_with('.') => vec![
            format!("{service}.{namespace}.global."),
            format!("{service}.global."),
        ],
        _ => vec![origin.to_owned()],
    }
}

// === impl Sample ===

impl Sample {
    /// Returns the objects to write into a cluster with running controllers.
    pub fn writes(&self) -> Vec<Value> {
        match self {
            Self::Local(local) => Manifest::from(local.clone()).0,
            Self::Mirror(mirror) => mirror.writes(),
            Self::ClusterIp(service) => service.writes(),
        }
    }
}

impl From<Local> for Sample {
    fn from(local: Local) -> Self {
        Self::Local(local)
    }
}

impl From<Mirror> for Sample {
    fn from(mirror: Mirror) -> Self {
        Self::Mirror(mirror)
    }
}

impl From<ClusterIp> for Sample {
    fn from(service: ClusterIp) -> Self {
        Self::ClusterIp(service)
    }
}

impl From<Sample> for Manifest {
    fn from(sample: Sample) -> Self {
        match sample {
            Sample::Local(local) => local.into(),
            Sample::Mirror(mirror) => mirror.into(),
            Sample::ClusterIp(service) => service.into(),
        }
    }
}

// === impl Case ===

impl Case {
    pub(crate) fn read(line: &str, origin: &str) -> Self {
        let (name, rest) = line.split_once(' ').expect("a name");
        let (rtype, answer) = rest.trim_start().split_once(' ').expect("a type");
        let absolute = |name: &str| match name {
            "@" => origin.to_owned(),
            own if own.ends_with('.') => own.to_owned(),
            own if origin == "." => format!("{own}."),
            own => format!("{own}.{origin}"),
        };
        let (rtype, record_type) = rtype.split_once(':').unwrap_or((rtype, rtype));
        let answer = match answer.trim() {
            "NODATA" => Answer::NoData,
            "NXDOMAIN" => Answer::NxDomain,
            "REFUSED" => Answer::Refused,
            "SERVFAIL" => Answer::ServFail,
            data => {
                let data = data
                    .split(',')
                    .map(|data| match data.trim().rsplit_once(' ') {
                        Some((numbers, target)) if record_type == "SRV" => {
                            format!("{numbers} {}", absolute(target))
                        }
                        _ => data.trim().to_owned(),
                    });
                Answer::Data(data.collect())
            }
        };
        Self {
            name: absolute(name),
            rtype: rtype.to_owned(),
            record_type: record_type.to_owned(),
            answer,
        }
    }

    /// Returns the question in text form: `db.prod.global. A`.
    pub fn question(&self) -> String {
        format!("{} {}", self.name, self.rtype)
    }

    /// Returns the expected records in zone file syntax.
    pub fn records(&self) -> BTreeSet<String> {
        let Answer::Data(data) = &self.answer else {
            return BTreeSet::new();
        };
        let (name, rtype) = (&self.name, &self.record_type);
        let record = |data| format!("{name} 5 IN {rtype} {data}");
        data.iter().map(record).collect()
    }

    /// Returns the targets of the expected records.
    pub fn targets(&self) -> BTreeSet<String> {
        let is_name = ["SRV", "NS"].contains(&&*self.record_type);
        match &self.answer {
            Answer::Data(data) if is_name => {
                let target = |data: &String| data.rsplit(' ').next().unwrap().to_owned();
                data.iter().map(target).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Compares a reply with the expected answer: response code, AA bit, records, and the SOA record of a negative
    /// answer. Returns a description of the difference, if there is one.
    pub fn difference(&self, reply: &Reply) -> Option<String> {
        const SOA: &str =
            "global. 5 IN SOA ns.dns.global. hostmaster.global. SERIAL 7200 1800 86400 5";
        let (status, authority) = match self.answer {
            Answer::Data(_) => ("NOERROR", None),
            Answer::NoData => ("NOERROR", Some(SOA)),
            Answer::NxDomain => ("NXDOMAIN", Some(SOA)),
            Answer::Refused => ("REFUSED", None),
            Answer::ServFail => ("SERVFAIL", None),
        };
        let is_authoritative = !matches!(self.answer, Answer::Refused | Answer::ServFail);
        let records = Vec::from_iter(self.records());
        let expected = (status, is_authoritative, records, Vec::from_iter(authority));
        let (status, authority) = (reply.status(), sorted_texts(&reply.authority));
        let authority = authority.iter().map(String::as_str).collect();
        let has_aa = reply.is_authoritative();
        let actual = (&*status, has_aa, sorted_texts(&reply.answers), authority);
        let question = self.question();
        (expected != actual).then(|| format!("{question}: expected {expected:?}, got {actual:?}"))
    }

    /// Queries a server like a resolver, and over TCP. Returns a description of the first difference.
    pub fn ask(&self, server: SocketAddr) -> Option<String> {
        let question = self.question();
        let replies = [
            resolve(server, &question),
            ask(server, &question, Transport::Tcp),
        ];
        replies.iter().find_map(|reply| self.difference(reply))
    }
}

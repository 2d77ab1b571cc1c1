//! Random values of the chart.

use serde_json::{Map, Value, json};

use super::boundaries::{Case, set};
use crate::chart::values::with;

/// Random numbers (xorshift64), the same in every run.
pub struct Random(u64);

// === impl Random ===

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let limit = u64::try_from(limit).unwrap_or(1);
        usize::try_from((self.0 >> 16) % limit).unwrap_or(0)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.below(values.len())]
    }

    /// Returns at least `least` distinct values, in their order.
    fn some<T: Clone>(&mut self, least: usize, values: &[T]) -> Vec<T> {
        let mut chosen: Vec<T> = values.iter().filter(|_| self.chance(40)).cloned().collect();
        for value in values {
            if chosen.len() < least {
                chosen.push(value.clone());
            }
        }
        chosen.truncate(values.len());
        chosen
    }
}

const CLUSTERS: [&str; 6] = ["local", "east", "west", "0", "a-1", "north"];
const SERVICES: [&str; 4] = ["prod/db", "a/b", "shop/pay-1", "0/1"];
const NETWORKS: [&str; 7] = [
    "0.0.0.0/0",
    "10.0.0.1/8",
    "192.0.2.255/32",
    "::/0",
    "fd00::/8",
    "2001:db8::1/128",
    "::ffff:192.0.2.1",
];
const DURATIONS: [&str; 6] = ["1ms", "500ms", "5s", "1m30s", "2h", "1h1m1s1ms"];

/// An order: distinct clusters in steps, with and without weights, and perhaps `*`.
fn order(random: &mut Random) -> String {
    let mut clusters = random.some(1, &CLUSTERS);
    let mut steps = Vec::new();
    while !clusters.is_empty() {
        let size = 1 + random.below(clusters.len().min(3));
        let has_weights = random.chance(30);
        let step: Vec<String> = clusters
            .drain(..size)
            .map(|cluster| match (has_weights, random.below(3)) {
                (false, _) => cluster.to_owned(),
                (true, 0) => format!("{cluster}=0"),
                (true, 1) => format!("{cluster}=1000"),
                (true, _) => format!("{cluster}={}", 1 + random.below(999)),
            })
            .collect();
        steps.push(step.join("+"));
    }
    if random.chance(40) {
        let place = random.below(steps.len() + 1);
        steps.insert(place, "*".to_owned());
    }
    steps.join(":")
}

fn by_service(random: &mut Random, value: impl Fn(&mut Random) -> Value) -> Value {
    let services = random.some(0, &SERVICES);
    let map: Map<String, Value> = services
        .into_iter()
        .map(|service| (service.to_owned(), value(random)))
        .collect();
    Value::Object(map)
}

/// Addresses with ports of their own.
fn addresses(random: &mut Random, port: &mut u16, least: usize) -> Vec<String> {
    let count = least.max(random.below(3));
    let mut address = || {
        *port += 1;
        let hosts = [
            "",
            "localhost",
            "0.0.0.0",
            "[::]",
            "127.0.0.1",
            "[::1]",
            "10.1.2.3",
            "[2001:db8::7]",
        ];
        format!("{}:{port}", random.pick(&hosts))
    };
    (0..count).map(|_| address()).collect()
}

/// Returns a valid combination of values.
pub fn combination(random: &mut Random) -> Value {
    let mut values = json!({});
    let mut put = |key: &str, value: Value| values[key] = value;
    let r = random;
    if r.chance(70) {
        let long = format!("{0}.{0}", "z".repeat(62));
        let all = [
            "global",
            "Svc.Example.COM.",
            "x.",
            &long,
            "clusterset.local=mcs",
            "b.x.=mcs",
        ];
        let zones = r.some(1, &all);
        if r.chance(50) && zones.iter().any(|zone| !zone.ends_with("=mcs")) {
            let reverse = [
                "96.10.in-addr.arpa",
                "0.d.F.ip6.arpa.",
                "255.0.0.10.in-addr.arpa",
                "1.in-addr.arpa",
            ];
            put("reverseZones", json!(r.some(1, &reverse)));
        }
        put("zones", json!(zones));
    }
    if r.chance(40) {
        put("namespaces", json!(r.some(1, &["prod", "shop", "0"])));
    }
    if r.chance(30) {
        put(
            "aliases",
            json!({"crdb.prod": r.some(1, &["crdb.east", "crdb.west", "0.0"]), "x.y": ["crdb.east"]}),
        );
    }
    if r.chance(30) {
        put("clusterAliases", json!({"link-west": "west", "0": "a"}));
    }
    put("excludeClusters", json!(r.some(0, &["old", "older"])));
    for key in ["ttl", "ttlMax", "negativeTtl"] {
        if r.chance(50) {
            put(key, json!(*r.pick(&[1, 2, 30, 86_399, 86_400])));
        }
    }
    put(
        "shortNames",
        json!({"which": r.pick(&[json!("on"), json!("pinned"), json!("off"), json!(true), json!(false)]),
            "defaultNamespace": r.pick(&["", "prod"]), "pinned": r.pick(&[json!({}), json!({"db": "prod", "c": "shop"})])}),
    );
    put(
        "gatewayDown",
        json!(r.pick(&["last-resort", "include", "exclude"])),
    );
    put(
        "localMembers",
        r.pick(&[
            json!("matching"),
            json!("exported"),
            json!("off"),
            json!(false),
        ])
        .clone(),
    );
    put(
        "links",
        json!({"enabled": r.chance(70), "namespace": r.pick(&[json!("links"), json!(["a", "b"])]),
            "unlinkedAfter": r.pick(&DURATIONS), "unlinked": r.pick(&["down", "ignore"])}),
    );
    put("mcs", json!({"enabled": r.chance(30)}));
    let default = if r.chance(50) {
        order(r)
    } else {
        String::new()
    };
    put(
        "failover",
        json!({"default": default, "services": by_service(r, |r| json!(order(r))), "defaultMode": r.pick(&["", "hold", "auto"]),
            "modes": by_service(r, |r| json!(r.pick(&["hold", "auto"]))), "delay": r.pick(&["0s", "2s", "1h"]),
            "failbackDelay": r.pick(&["0ms", "30s"])}),
    );
    put(
        "expectedClusters",
        by_service(r, |r| json!(r.some(1, &CLUSTERS))),
    );
    put("bootstrapWindow", json!(r.pick(&["0s", "1h", "99999h"])));
    put(
        "order",
        json!(r.pick(&["rotate", "shuffle", "local-first", "stable"])),
    );
    put(
        "nsAddresses",
        json!(r.some(0, &["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"])),
    );
    put("udpMax", json!(*r.pick(&[512, 1232, 4096])));
    put(
        "udpWorkers",
        r.pick(&[Value::Null, json!(1), json!(3)]).clone(),
    );
    for key in ["tcpConnections", "tcpConnectionsPerAddress"] {
        put(key, json!(*r.pick(&[1_u64, 256, 4_294_967_295])));
    }
    put("allow", json!(r.some(0, &NETWORKS)));
    put("trusted", json!(r.some(0, &NETWORKS)));
    put("rateLimit", json!(*r.pick(&[0_u64, 1, 4_294_967_295])));
    put(
        "cookies",
        json!({"secretName": r.pick(&["", "cookies.v1"]), "secretKey": r.pick(&["cookie-secrets", ".a", "_"])}),
    );
    let longest = "x".repeat(128);
    let texts = [
        "",
        "$(POD_NAME)",
        "a \"quoted\" text: {yes} # no",
        "ä, ö",
        &longest,
    ];
    put("serverId", json!(r.pick(&texts)));
    put("versionBind", json!(r.pick(&texts)));
    let mut port = u16::try_from(1 + r.below(60_000)).unwrap_or(1);
    if r.chance(50) {
        put("listen", json!(addresses(r, &mut port, 0)));
        put("adminListen", json!(addresses(r, &mut port, 0)));
        put("apiListen", json!(addresses(r, &mut port, 1)));
    }
    put(
        "apiHosts",
        json!(r.some(0, &["dns.example.com.", "a_b", "2001:db8::1", "192.0.2.1"])),
    );
    if r.chance(40) {
        let (tls, quic) = (addresses(r, &mut port, 1), addresses(r, &mut port, 0));
        put(
            "encrypted",
            json!({"secretName": "tls", "clientCASecretName": r.pick(&["", "ca"]), "tlsListen": tls,
                "quicListen": quic}),
        );
    }
    if r.chance(20) {
        put(
            "source",
            json!({"files": ["/objects/a.yaml", "/objects/b c.yaml"]}),
        );
    } else if r.chance(20) {
        put(
            "source",
            json!({"kubeconfig": "/objects/kubeconfig", "context": r.pick(&["", "a b"])}),
        );
    }
    put("relist", json!(r.pick(&["1m", "12h"])));
    let (timeout, stale) = *r.pick(&[
        ("30s", ""),
        ("30s", "1m"),
        ("1m30s", "3m"),
        ("500ms", "1s"),
        ("1h", "99999h"),
    ]);
    put("watchTimeout", json!(timeout));
    put("maxStale", json!(stale));
    put(
        "snapshot",
        json!({"enabled": r.chance(70), "maxAge": r.pick(&DURATIONS)}),
    );
    put(
        "journal",
        json!({"max": r.pick(&["0", "65536", "64Ki", "1Mi", "1Gi", "0Mi"])}),
    );
    put(
        "history",
        json!({"age": r.pick(&["0s", "24h"]), "memory": r.pick(&["0", "1000", "64Ki", "1Gi"])}),
    );
    put(
        "shrinkGuard",
        r.pick(&[json!(1), json!(99), json!("off"), json!(false)])
            .clone(),
    );
    put("graceSeconds", json!(*r.pick(&[0, 10, 3600])));
    put(
        "log",
        json!({"level": r.pick(&["off", "INFO", "5", "info,global_dns::source=debug", "[span]=trace,a[b]=0"]),
            "format": r.pick(&["text", "json"])}),
    );
    put("kind", json!(r.pick(&["Deployment", "DaemonSet"])));
    put(
        "replicas",
        r.pick(&[Value::Null, json!(0), json!(1), json!(7)]).clone(),
    );
    put("hostNetwork", json!(false));
    put(
        "service",
        json!({"type": r.pick(&["ClusterIP", "NodePort", "LoadBalancer"]), "clusterIP": r.pick(&["", "10.96.0.53", "2001:db8::53"])}),
    );
    put(
        "podDisruptionBudget",
        r.pick(&[
            json!({}),
            json!({"enabled": false}),
            json!({"minAvailable": "99%"}),
            json!({"maxUnavailable": "100%"}),
        ])
        .clone(),
    );
    with(values)
}

/// Returns a combination of three boundary values. They may be invalid.
pub fn wild_combination(random: &mut Random, cases: &[Case]) -> Value {
    let mut values = combination(random);
    // Mostly texts that are valid by themselves: the combination is what may be invalid.
    for _ in 0..3 {
        let case = random.pick(cases);
        if case.is_valid {
            set(&mut values, &case.path, &case.text);
        }
    }
    values
}

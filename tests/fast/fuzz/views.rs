//! Views agree with replies: over generated worlds, what the API and the metrics say about names, services and endpoints is
//! compared with the replies to real queries.
//!
//! The worlds have objects of all kinds of services, settings of each rule, failover orders, expected clusters and zones of
//! each grammar. Each is looked at in several moments: before the first table, while its objects change,
//! and with clusters without a Link. Each view is one function in [`VIEWS`]; another one
//! needs one more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use global_dns::model::{Kind, KubeObject, ObjectKey, Problem, ProblemKind, Timestamp, parse};
use global_dns::source::Feeds;
use global_dns::table::links::{LinkList, Links};
use global_dns::table::publish::{Current, Reader};
use global_dns::table::store::ServiceKeys;
use global_dns::table::{Built, Difference, Publisher, Table, Timers, build};
use global_dns::view;
use global_dns::wire::Transport;
use global_dns::zone::Name;
use serde::Deserialize;
use serde_json::{Value, json};
use support::reply::{Reply, rtype};
use support::rounds::rounds;

use crate::fuzz::checks::answers;
use crate::fuzz::checks::choices::Choices;
use crate::fuzz::checks::cluster::Cluster;
use crate::fuzz::checks::kinds::{self, SERVICES};
use crate::fuzz::checks::messages::SETTINGS;
use crate::fuzz::checks::orders::Flags;
use crate::fuzz::checks::seen::Seen;
use crate::fuzz::checks::tables::services_of;
use crate::fuzz::checks::views::{Routes, get};
use crate::fuzz::generated;

/// Number of worlds.
const WORLDS: u16 = 24;
/// Objects of a world, of which some are deleted again.
const STEPS: usize = 45;
/// One of this many steps is looked at.
const MOMENT: u8 = 12;
/// Names in each moment: those that own records, and others.
const OWNERS: usize = 60;
const OTHERS: usize = 30;

/// Every type that a name can have, and the words of `explain` for them.
const TYPES: [(u16, &str); 6] = [
    (rtype::A, "A"),
    (rtype::AAAA, "AAAA"),
    (rtype::SRV, "SRV"),
    (rtype::NS, "NS"),
    (rtype::SOA, "SOA"),
    (rtype::TXT, "TXT"),
];

/// Names of zones, which have no endpoints.
const OWN_NAMES: [&str; 6] = [
    "global.",
    "ns.dns.global.",
    "dns.global.",
    "dns-version.global.",
    "set.",
    "dns-version.set.",
];
const OTHER_NAMES: [&str; 4] = [
    "prod.global.",
    "svc.set.",
    "prod.svc.set.",
    "www.example.org.",
];

/// What the worlds cover: the states of endpoints, results of answers, and reasons.
const CASES: [&str; 36] = [
    "endpoint alive, returned true",
    "endpoint alive, returned false",
    "endpoint down, returned true",
    "endpoint down, returned false",
    "endpoint not-ready, returned true",
    "endpoint not-ready, returned false",
    "endpoint standby, returned true",
    "endpoint standby, returned false",
    "endpoint omitted, returned true",
    "endpoint omitted, returned false",
    "A NOERROR",
    "A NODATA",
    "A NXDOMAIN",
    "A SERVFAIL",
    "A REFUSED",
    "SRV NOERROR",
    "SRV NODATA",
    "SRV NXDOMAIN",
    "SRV SERVFAIL",
    "SOA NOERROR",
    "NS NOERROR",
    "TXT NOERROR",
    "its gateway is down",
    "no Link names its cluster",
    "its pod is not ready",
    "no pod behind its address is ready",
    "another step of the failover order answers",
    "a better kind answers for its cluster",
    "it lacks the port",
    "returned because nothing better is left",
    "returned because gateway-down is include",
    "returned for names of its cluster",
    "the name fails: expected clusters are missing",
    "the name fails: the failover step that answers has no endpoint",
    "the name has no records of endpoints",
    "the name does not exist",
];

/// Compares one view with the replies.
type View = fn(&Server, &mut Seen);

const VIEWS: [(&str, View); 5] = [
    ("explain of names", check_explanations),
    ("endpoints", check_endpoints),
    ("metrics", check_metrics),
    ("table", check_table),
    ("problems", check_problems),
];

/// A document for programs.
#[derive(Debug, Deserialize)]
struct Page {
    items: Vec<Value>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// A document for people.
#[derive(Debug, Deserialize)]
struct Cells {
    sections: Vec<Section>,
}

#[derive(Debug, Deserialize)]
struct Section {
    title: String,
    columns: Vec<Value>,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    cells: Vec<String>,
}

/// An endpoint of a document.
#[derive(Clone, Debug, Deserialize)]
struct Endpoint {
    namespace: String,
    service: String,
    cluster: String,
    hostname: String,
    addresses: Vec<IpAddr>,
    ports: Vec<Port>,
    state: String,
    returned: bool,
    why: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Port {
    name: Option<String>,
    protocol: String,
    port: u16,
}

/// An explanation.
#[derive(Debug)]
struct Explanation {
    exists: bool,
    reading: String,
    answers: Vec<Value>,
    endpoints: Vec<Endpoint>,
}

impl Explanation {
    fn of(items: &[Value]) -> Self {
        let of = |section: &'static str| items.iter().filter(move |one| one["section"] == section);
        let head = items.iter().find(|one| one["section"].is_null()).unwrap();
        let read = |one: &Value| serde_json::from_value(one.clone()).unwrap();
        Self {
            exists: head["exists"].as_bool().unwrap(),
            reading: head["reading"].as_str().unwrap().to_owned(),
            answers: of("answers").cloned().collect(),
            endpoints: of("endpoints").map(read).collect(),
        }
    }
}

impl Endpoint {
    fn is_alive(&self) -> bool {
        ["alive", "standby", "omitted"].contains(&&*self.state)
    }
}

/// A server without listeners.
struct Server {
    publisher: Publisher,
    reader: Reader,
    routes: Routes,
    runtime: tokio::runtime::Runtime,
    /// Selects names.
    random: fastrand::Rng,
    /// The time of the last table, in milliseconds.
    now: u64,
    /// The times that were looked at, with what the views told then.
    recorded: Vec<(u64, String, Value)>,
}

/// What the replies for a name contain.
#[derive(Debug, Default, PartialEq)]
struct Answered {
    /// The best result of the types A, AAAA and SRV.
    result: &'static str,
    addresses: BTreeSet<IpAddr>,
    /// Ports and targets.
    hosts: BTreeSet<(u16, String)>,
}

// === Worlds ===

#[test]
fn views_tell_what_replies_contain() {
    let mut seen = Seen::default();
    let worlds = rounds(WORLDS);
    for number in 0..worlds {
        check_world(number, &mut seen);
    }
    let [moments, questions] = ["moment", "question"].map(|case| seen.number(case));
    println!("{worlds} worlds, {moments} moments, {questions} questions");
    if worlds == WORLDS {
        seen.assert_all(&CASES); // fewer are too few for the rare cases
    }
}

/// Looks at the moments of a world.
fn check_world(number: u16, seen: &mut Seen) {
    let octets = generated(number);
    let choices = &mut Choices::new(&octets);
    let mut cluster = Cluster::new(choices);
    Flags::choose(&mut cluster.rules, *octets.last().unwrap());
    // The server has zones of each grammar.
    cluster.rules.has_mcs_zones = true;
    let mut server = Server::new();
    server.check(number, "before the first table", seen);
    for step in 0..STEPS {
        let choice = choices.octet();
        match choice % 8 {
            0..=6 => {
                let (kind, object) = kinds::object(choices);
                cluster.put(kind, object, choices);
            }
            _ => cluster.delete(choices),
        }
        cluster.build(&mut Seen::default());
        if choices.rarely(MOMENT) {
            server.publish(&cluster.table);
            server.check(number, &format!("step {step}"), seen);
        }
    }
    server.publish(&cluster.table);
    server.check(number, "the end", seen);
    for linked in [&["west", "north"][..], &["north"]] {
        server.publish(&unlinked(&cluster, linked));
        server.check(number, &format!("only {linked:?} have a Link"), seen);
    }
    at(
        || format!("world {number}, the past"),
        || server.check_past(),
    );
}

/// Runs a check. If it fails, says where.
fn at(place: impl FnOnce() -> String, check: impl FnOnce()) {
    let result = catch_unwind(AssertUnwindSafe(check));
    result.unwrap_or_else(|_| panic!("{}", place()));
}

/// Returns the build of a table that follows another one.
fn built(last: Option<&Table>, table: &Table) -> Built {
    let services = last.into_iter().flat_map(Table::services);
    let mut services: ServiceKeys = services
        .chain(table.services())
        .map(|service| service.key.clone())
        .collect();
    services.retain(|key| last.and_then(|last| last.find(key)) != table.find(key));
    Built {
        table: table.clone(),
        difference: Difference::Answers,
        services,
        ..Built::default()
    }
}

/// Returns the table of a cluster if, for a long time, only these clusters have had a Link.
fn unlinked(cluster: &Cluster, linked: &[&str]) -> Table {
    let (mut store, rules) = (cluster.store.clone(), &cluster.rules);
    for name in linked {
        let link = json!({
            "kind": "Link",
            "metadata": {"namespace": "linkerd-multicluster", "name": name},
            "spec": {"targetClusterName": name},
        });
        let text = link.to_string();
        let read = KubeObject::read(&text);
        let object = parse::read(Kind::Link, &read).unwrap();
        store.apply(
            Kind::Link,
            ObjectKey::new("linkerd-multicluster", name),
            Some(object),
        );
    }
    let mut links = Links::default();
    let mut timers = Timers::default();
    for now in [Timestamp(1), Timestamp(1).after(rules.unlinked_after)] {
        let list = LinkList::Listed { is_complete: true };
        links.update(&mut store, Some(list), rules, now);
    }
    (timers.now, timers.wall) = (cluster.timers.now, cluster.timers.wall);
    timers.links = links;
    build(
        &Table::default(),
        &store,
        &services_of(&store),
        rules,
        &timers,
    )
    .table
}

// === impl Server ===

impl Server {
    fn new() -> Self {
        let publisher = Publisher::new(Timestamp(0), Duration::from_secs(24 * 3600));
        let (reader, feeds) = (publisher.reader(), Feeds::new(&[]));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let routes = Routes::new(reader.clone(), &feeds, runtime.handle().clone());
        Self {
            publisher,
            reader,
            routes,
            runtime,
            random: fastrand::Rng::with_seed(0),
            now: 0,
            recorded: Vec::new(),
        }
    }

    fn publish(&mut self, table: &Table) {
        let next = self.next_time();
        let last = self.publisher.reader().load();
        self.publisher
            .publish(built(last.table.as_ref(), table), next, 1);
    }

    /// Returns the time of the next table. In a minute, the history keeps few versions of a service.
    fn next_time(&mut self) -> Timestamp {
        self.now += 61_000;
        Timestamp(self.now)
    }

    /// Records what the views tell of the current table.
    fn record(&mut self) {
        let mut views: Vec<String> = [
            "endpoints?limit=1000",
            "problems?limit=1000",
            "table?limit=1000",
        ]
        .map(str::to_owned)
        .into();
        if self.now().table.is_some() {
            let names = self.names().into_iter().step_by(9).take(12);
            views.extend(names.map(|name| format!("explain?limit=1000&name={name}")));
        }
        for view in views {
            let told = json!(self.page(&view).items);
            self.recorded.push((self.now, view, told));
        }
    }

    /// Compares what the views tell of each time that was looked at with what they told then.
    fn check_past(&mut self) {
        for (time, view, expected) in std::mem::take(&mut self.recorded) {
            let at = Timestamp(time + 500).to_exact_text();
            let told = json!(self.page(&format!("{view}&at={at}")).items);
            // Of the server's own problems, the past knows none: here, no watch is listed.
            let [told, expected] = [told, expected].map(|told| {
                let items = told.as_array().unwrap().clone().into_iter();
                items
                    .filter(|one| one["kind"] != "source-unavailable")
                    .collect::<Vec<_>>()
            });
            assert_eq!(told, expected, "{view}");
        }
    }

    fn check(&mut self, number: u16, moment: &str, seen: &mut Seen) {
        seen.count("moment", 1);
        self.random = fastrand::Rng::with_seed(seen.number("moment") as u64);
        for (view, check) in VIEWS {
            let place = format!("world {number}, {moment}, {view}");
            at(|| place, || check(self, seen));
        }
        self.record();
    }

    fn now(&self) -> Current {
        self.reader.load()
    }

    fn metrics(&self) -> (u16, String) {
        let page = get(&self.routes.admin, "/metrics", "text/plain");
        self.runtime.block_on(page)
    }

    fn get(&self, view: &str, form: &str) -> (u16, String) {
        let path = format!("/api/v1/{view}");
        self.runtime.block_on(get(&self.routes.api, &path, form))
    }

    /// Returns a page of a view.
    fn page(&self, view: &str) -> Page {
        let (status, text) = self.get(view, "application/json");
        assert_eq!(status, 200, "{view}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the objects of a list, page by page. The number of rows of a page is random.
    fn items(&self, view: &str) -> Vec<Value> {
        let sign = if view.contains('?') { '&' } else { '?' };
        let limit = self.random.clone().usize(1..40);
        let first = format!("{view}{sign}limit={limit}");
        let mut page = self.page(&first);
        let mut items = Vec::new();
        loop {
            items.append(&mut page.items);
            let Some(place) = page.next else {
                return items;
            };
            page = self.page(&format!("{first}&continue={place}"));
        }
    }

    /// Returns the rows of a section of a view, as cells by heading.
    fn rows(&self, view: &str, title: &str) -> Vec<BTreeMap<String, String>> {
        let (_, body) = self.get(view, view::CELLS);
        let cells: Cells = serde_json::from_str(&body).unwrap();
        let section = cells.sections.into_iter().find(|one| one.title == title);
        let section = section.unwrap_or_else(|| panic!("{view} has no section {title}"));
        let names: Vec<&str> = section
            .columns
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        let row = |row: &Row| {
            assert_eq!(row.cells.len(), names.len(), "{view}");
            let cells = names.iter().zip(&row.cells);
            cells
                .map(|(name, cell)| ((*name).to_owned(), cell.clone()))
                .collect()
        };
        section.rows.iter().map(row).collect()
    }

    /// Returns the reply to a query, decoded by two decoders.
    fn ask(&self, name: &str, rtype: u16, seen: &mut Seen) -> Reply {
        seen.count("question", 1);
        let reply = answers::reply(&self.now(), name, rtype, Transport::Tcp);
        Reply::read(&reply).unwrap().in_lower_case()
    }

    /// Returns what the replies for a name contain.
    fn answered(&self, name: &str, seen: &mut Seen) -> Answered {
        let mut all = Answered::default();
        let mut results = BTreeSet::new();
        for rtype in [rtype::A, rtype::AAAA, rtype::SRV] {
            let reply = self.ask(name, rtype, seen);
            results.insert(result(&reply));
            all.add(&reply);
        }
        let best = ["NOERROR", "NODATA", "NXDOMAIN", "REFUSED", "SERVFAIL"];
        all.result = best.into_iter().find(|one| results.contains(one)).unwrap();
        all
    }

    /// Returns the names to ask for: some that own records, and some others, which may exist.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        if let Some(table) = &self.now().table {
            let mut owners = owner_names(table);
            self.random.clone().shuffle(&mut owners);
            names.extend(owners.into_iter().take(OWNERS));
        }
        let mut random = self.random.clone();
        let pick =
            |random: &mut fastrand::Rng, from: &[&'static str]| from[random.usize(..from.len())];
        for _ in 0..OTHERS {
            let port = pick(
                &mut random,
                &["", "", "", "_sql._tcp.", "_http._tcp.", "_tcp."],
            );
            let scope = pick(
                &mut random,
                &[
                    "",
                    "",
                    "",
                    "east.",
                    "hub.",
                    "nope.",
                    "db-0.east.",
                    "db-1.hub.",
                ],
            );
            let service = pick(&mut random, SERVICES);
            let family = pick(
                &mut random,
                &[
                    ".prod.global.",
                    ".shop.global.",
                    ".db.global.",
                    ".global.",
                    ".prod.svc.set.",
                    ".prod.one.",
                ],
            );
            names.push(format!("{port}{scope}{service}{family}"));
        }
        let fixed = OWN_NAMES.into_iter().chain(OTHER_NAMES);
        names.extend(fixed.map(str::to_owned));
        names
    }
}

/// Returns the names of services that own records and fit into a query.
fn owner_names(table: &Table) -> Vec<String> {
    let zones = SETTINGS.zones.iter();
    let names = zones.flat_map(|zone| answers::names_in(zone, table));
    names
        .filter(|name| Name::from_text(name).is_some())
        .collect()
}

// === impl Answered ===

impl Answered {
    fn add(&mut self, reply: &Reply) {
        for record in &reply.answers {
            match record.rtype {
                rtype::A | rtype::AAAA => _ = self.addresses.insert(record.data.parse().unwrap()),
                rtype::SRV => {
                    let fields: Vec<&str> = record.data.split(' ').collect();
                    self.hosts
                        .insert((fields[2].parse().unwrap(), fields[3].to_owned()));
                }
                _ => {}
            }
        }
    }
}

/// Returns the result of a reply, as documents call it.
fn result(reply: &Reply) -> &'static str {
    match (reply.rcode, reply.answers.is_empty()) {
        (0, false) => "NOERROR",
        (0, true) => "NODATA",
        (2, true) => "SERVFAIL",
        (3, true) => "NXDOMAIN",
        (5, true) => "REFUSED",
        other => panic!("{other:?}: {reply:?}"),
    }
}

/// Returns the text of an extended error.
fn error_text(reply: &Reply) -> String {
    const EXTENDED_ERROR: u16 = 15;
    let options = reply.opt.iter().flat_map(|opt| &opt.options);
    let mut errors = options.filter(|(code, _)| *code == EXTENDED_ERROR);
    errors.next().map_or(String::new(), |(_, data)| {
        String::from_utf8(data[2..].to_vec()).unwrap()
    })
}

// === Views ===

/// `/api/v1/explain` of names.
fn check_explanations(server: &Server, seen: &mut Seen) {
    for name in server.names() {
        let view = format!("explain?limit=1000&name={name}");
        if server.now().table.is_none() {
            assert_eq!(server.get(&view, "application/json").0, 503);
            let reply = server.ask(&name, rtype::A, seen);
            let expected = if name.ends_with(".org.") {
                "REFUSED"
            } else {
                "SERVFAIL"
            };
            assert_eq!(result(&reply), expected, "{name}");
            continue;
        }
        let explanation = Explanation::of(&server.page(&view).items);
        let place = || format!("{explanation:#?}");
        at(place, || {
            check_explanation(server, &name, &explanation, seen)
        });
        let returned = explanation.endpoints.iter().filter(|one| one.returned);
        if !explanation.endpoints.is_empty() {
            let rows = server.rows(&view, "endpoints");
            let yes = rows.iter().filter(|row| row["RETURNED"] == "yes").count();
            assert_eq!(yes, returned.count(), "{name}: {rows:?}");
        }
    }
}

fn check_explanation(server: &Server, name: &str, explanation: &Explanation, seen: &mut Seen) {
    let mut answered = Answered::default();
    let (mut fails, mut exists) = (false, false);
    let told = explanation.answers.iter();
    let told = told.map(|answer| (answer["rtype"].as_str().unwrap(), answer));
    let mut told: BTreeMap<&str, &Value> = told.collect();
    let endpoints = &explanation.endpoints;
    for (code, text) in TYPES {
        let reply = server.ask(name, code, seen);
        answered.add(&reply);
        let Some(answer) = told.remove(text) else {
            assert!(reply.answers.is_empty(), "{text} has records: {reply:?}");
            continue;
        };
        let result = result(&reply);
        assert_eq!(answer["result"], result, "{text}");
        seen.count(&format!("{text} {result}"), 1);
        let first = reply.answers.iter().chain(&reply.authority).next();
        assert_eq!(
            answer["ttl"],
            json!(first.map(|record| record.ttl)),
            "{text}"
        );
        assert_eq!(answer["count"], reply.answers.len(), "{text}");
        assert_eq!(answer["overTcp"], reply.answers.len(), "{text}");
        fails |= result == "SERVFAIL";
        exists |= !["NXDOMAIN", "REFUSED"].contains(&result);
        assert_eq!(answer["reason"].is_string(), result == "SERVFAIL", "{text}");
        let error = error_text(&reply);
        assert!(
            error.is_empty() || answer["reason"] == error || result == "REFUSED",
            "{error}"
        );
        check_records(name, answer, &reply, endpoints);
    }
    assert!(told.is_empty(), "answers of other types: {told:?}");
    assert_eq!(explanation.exists, exists);

    let returned: Vec<&Endpoint> = endpoints.iter().filter(|one| one.returned).collect();
    assert!(endpoints.iter().is_sorted_by_key(|one| !one.returned));
    for endpoint in endpoints {
        note_endpoint(endpoint, seen);
    }
    if OWN_NAMES.contains(&name) {
        assert!(endpoints.is_empty());
    } else {
        let has_port = name.starts_with('_');
        if has_port {
            assert_eq!(answered.addresses, BTreeSet::new());
        } else {
            assert_eq!(addresses_of(&returned), answered.addresses);
        }
        check_hosts(&returned, name, &answered.hosts);
    }

    let is_failing = explanation.reading.contains("the name fails: ");
    assert_eq!(is_failing, fails, "{}", explanation.reading);
    assert!(!explanation.reading.ends_with('.') || name == "global." || name == "set.");
    if let Some((count, total)) = count_in(&explanation.reading) {
        let is_part = explanation.reading.contains(", cluster '");
        assert!(is_part || total == endpoints.len());
        assert_eq!(count, returned.len());
    }
}

/// Compares the records of an answer with those of the reply, and each with its endpoint.
fn check_records(name: &str, answer: &Value, reply: &Reply, endpoints: &[Endpoint]) {
    let records = reply.answers.iter();
    let records = records.map(|one| (one.owner.clone(), one.ttl, one.data.clone()));
    let mut listed = BTreeSet::new();
    for record in answer["records"].as_array().unwrap() {
        assert_eq!(record["type"], answer["rtype"]);
        let text = |field: &str| record[field].as_str().unwrap().to_owned();
        let (data, ttl) = (text("data"), record["ttl"].as_u64().unwrap() as u32);
        listed.insert((text("name"), ttl, data.clone()));
        let index = record["endpoint"].as_u64();
        let endpoint = index.map(|index| &endpoints[index as usize]);
        assert_eq!(endpoint.is_some(), !OWN_NAMES.contains(&name), "{record}");
        let is_of = |endpoint: &Endpoint| {
            let is_of = match data.parse() {
                Ok(address) => endpoint.addresses.contains(&address),
                Err(_) => data.contains(&*endpoint.hostname),
            };
            is_of && endpoint.returned
        };
        assert!(
            endpoint.is_none_or(is_of),
            "{record} is not of {endpoint:?}"
        );
    }
    assert_eq!(listed, records.collect::<BTreeSet<_>>(), "{answer}");
}

/// Notes the state of an endpoint, and checks that its reason fits.
fn note_endpoint(endpoint: &Endpoint, seen: &mut Seen) {
    let (state, returned) = (&*endpoint.state, endpoint.returned);
    seen.count(&format!("endpoint {state}, returned {returned}"), 1);
    let is_plain = state == "alive" && returned;
    assert_eq!(endpoint.why.is_none(), is_plain, "{endpoint:?}");
    let reasons = endpoint.why.iter().flat_map(|why| why.split("; "));
    reasons.for_each(|reason| seen.count(reason, 1));
    let causes = match state {
        "down" => &["its gateway is down", "no Link names its cluster"][..],
        "not-ready" => &["its pod is not ready", "no pod behind its address is ready"],
        "standby" => &["another step of the failover order answers", "the name "],
        "omitted" => &["a better kind answers for its cluster", "the name "],
        _ => return,
    };
    let why = endpoint.why.as_deref().unwrap_or_default();
    assert!(
        causes.iter().any(|cause| why.starts_with(cause)),
        "{endpoint:?}"
    );
}

/// Returns the numbers of `2 of 3 endpoints`.
fn count_in(reading: &str) -> Option<(usize, usize)> {
    let (_, last) = reading.split_once(": ")?;
    let mut words = last.split([' ', ';']);
    let (count, of, total) = (words.next()?, words.next()?, words.next()?);
    let numbers = (count.parse().ok()?, total.parse().ok()?);
    (of == "of").then_some(numbers)
}

fn addresses_of(endpoints: &[&Endpoint]) -> BTreeSet<IpAddr> {
    endpoints
        .iter()
        .flat_map(|one| one.addresses.clone())
        .collect()
}

/// Asserts that the SRV records of a name are those of these endpoints. Those of a short name may have targets of both forms.
fn check_hosts(returned: &[&Endpoint], name: &str, hosts: &BTreeSet<(u16, String)>) {
    let canonical = |(port, target): &(u16, String)| {
        let first = returned.first().map(|one| (&one.service, &one.namespace));
        let suffixes = first.map(|(service, namespace)| {
            let short = format!("{service}.global.");
            (short, format!("{service}.{namespace}.global."))
        });
        let target = match &suffixes {
            Some((short, long)) if !target.ends_with(long) && target.ends_with(short) => {
                format!("{}{long}", target.strip_suffix(short).unwrap())
            }
            _ => target.clone(),
        };
        (*port, target)
    };
    let hosts: BTreeSet<_> = hosts.iter().map(canonical).collect();
    assert_eq!(hosts, hosts_of(returned, name));
}

/// Returns the ports and the canonical targets of the SRV records of a name that returns these endpoints.
fn hosts_of(endpoints: &[&Endpoint], name: &str) -> BTreeSet<(u16, String)> {
    let [is_set, is_one] = [".set.", ".one."].map(|zone| name.ends_with(zone));
    let labels: Vec<&str> = name.split('.').collect();
    let wanted = labels[0].strip_prefix('_').zip(labels[1].strip_prefix('_'));
    let mut hosts = BTreeSet::new();
    for endpoint in endpoints {
        let Endpoint {
            namespace,
            service,
            cluster,
            hostname,
            ..
        } = *endpoint;
        let suffix = if is_set {
            format!("{service}.{namespace}.svc.set.")
        } else if is_one {
            format!("{service}.{namespace}.one.")
        } else {
            format!("{service}.{namespace}.global.")
        };
        let target = match (&**cluster, &**hostname) {
            (_, "") if is_set || is_one => suffix,
            (_, host) if is_one => format!("{host}.{suffix}"),
            ("", _) => suffix,
            (cluster, "") => format!("{cluster}.{suffix}"),
            (cluster, host) => format!("{host}.{cluster}.{suffix}"),
        };
        for port in endpoint.ports.iter() {
            let protocol = port.protocol.to_lowercase();
            let is_wanted =
                |(name, of): (&str, &str)| port.name.as_deref() == Some(name) && of == protocol;
            if wanted.is_none_or(is_wanted) {
                hosts.insert((port.port, target.clone()));
            }
        }
    }
    hosts
}

/// Returns the endpoints of all services, by service.
fn endpoints_by_service(server: &Server) -> BTreeMap<(String, String), Vec<Endpoint>> {
    let mut services: BTreeMap<_, Vec<Endpoint>> = BTreeMap::new();
    for item in server.items("endpoints") {
        let endpoint: Endpoint = serde_json::from_value(item).unwrap();
        let key = (endpoint.namespace.clone(), endpoint.service.clone());
        services.entry(key).or_default().push(endpoint);
    }
    services
}

/// `/api/v1/endpoints`. An endpoint is returned if the replies for the name of its service contain it.
fn check_endpoints(server: &Server, seen: &mut Seen) {
    let mut rows = 0;
    for ((namespace, service), endpoints) in endpoints_by_service(server) {
        let name = format!("{service}.{namespace}.global.");
        let returned: Vec<&Endpoint> = endpoints.iter().filter(|one| one.returned).collect();
        rows += endpoints.len();
        endpoints.iter().for_each(|one| note_endpoint(one, seen));
        let answered = server.answered(&name, seen);
        assert_eq!(
            addresses_of(&returned),
            answered.addresses,
            "{endpoints:#?}"
        );
        check_hosts(&returned, &name, &answered.hosts);
        let is_last = |one: &&&Endpoint| {
            let why = one.why.as_deref().unwrap_or_default();
            why.ends_with("nothing better is left")
        };
        if returned.iter().find(is_last).is_some() {
            assert!(returned.iter().all(|one| !one.is_alive()), "{endpoints:#?}");
        }
    }
    let shown = server.rows("endpoints?limit=1000", "endpoints");
    assert_eq!(shown.len(), rows);
}

/// `/metrics`. The list of endpoints, which another view compares with replies, has the same numbers.
fn check_metrics(server: &Server, _: &mut Seen) {
    let (status, page) = server.metrics();
    assert_eq!(status, 200);
    let mut expected = BTreeMap::new();
    for endpoint in endpoints_by_service(server).values().flatten() {
        let Endpoint {
            cluster,
            state,
            returned,
            ..
        } = endpoint;
        let labels =
            format!("remote_cluster=\"{cluster}\",state=\"{state}\",returned=\"{returned}\"");
        *expected.entry(labels).or_insert(0) += 1;
    }
    let lines = page.lines();
    let lines = lines.filter_map(|line| {
        line.strip_prefix("global_dns_endpoints{")?
            .rsplit_once("} ")
    });
    let numbers =
        lines.map(|(labels, value)| (labels.to_owned(), value.parse::<f64>().unwrap() as usize));
    assert_eq!(numbers.collect::<BTreeMap<String, usize>>(), expected);
    let failing = server
        .items("table")
        .into_iter()
        .filter(|row| row["state"] == "failing");
    for row in failing {
        let labels = format!("namespace={},service={}", row["namespace"], row["service"]);
        assert!(
            page.contains(&format!("global_dns_failing_services{{{labels},kind=")),
            "{labels}"
        );
    }
}

/// `/api/v1/table`, from which the page is drawn. A service fails exactly if it should answer with an endpoint that is alive and does
/// not. If it waits for a cluster, or nothing is ready in any, it deserves attention.
fn check_table(server: &Server, seen: &mut Seen) {
    let endpoints = endpoints_by_service(server);
    let rows = server.items("table");
    let shown = server.rows("table?limit=1000", "services");
    assert_eq!(shown.len(), rows.len());
    let states = ["failing", "attention", "ok"];
    let place = |row: &Value| {
        states
            .iter()
            .position(|state| row["state"] == *state)
            .unwrap()
    };
    assert!(rows.iter().is_sorted_by_key(place), "trouble comes first");
    let now = server.now();
    for (row, cells) in rows.iter().zip(shown) {
        let text = |field: &str| row[field].as_str().unwrap().to_owned();
        let (namespace, service) = (text("namespace"), text("service"));
        assert_eq!(cells["SERVICE"], format!("{service}.{namespace}"));
        let shown = match text("answer").as_str() {
            "NOERROR" => format!("{} of {}", row["returned"], row["endpoints"]),
            other => other.to_owned(),
        };
        assert_eq!(
            (&cells["STATE"], &cells["ANSWER"]),
            (&text("state"), &shown)
        );
        let answered = server.answered(&format!("{service}.{namespace}.global."), seen);
        assert_eq!(row["answer"], answered.result, "{row}");
        let built = now.table.as_ref().unwrap();
        let built = built.service(&namespace, &service).unwrap();
        let own = endpoints
            .get(&(namespace, service))
            .map_or(&[][..], Vec::as_slice);
        check_counts(row, own.iter());
        let clusters = row["clusters"].as_array().unwrap();
        for cell in clusters {
            let is_own = |one: &&Endpoint| cell["cluster"] == *one.cluster;
            check_counts(cell, own.iter().filter(is_own));
        }
        let all: u64 = clusters
            .iter()
            .map(|cell| cell["endpoints"].as_u64().unwrap())
            .sum();
        assert_eq!(row["endpoints"], all, "{row}");
        let is_reachable = own.iter().any(|one| {
            one.is_alive()
                && one
                    .addresses
                    .iter()
                    .any(|ip| answered.addresses.contains(ip))
        });
        let mut own_problems = built.problems.iter();
        let has_host = !built.missing.is_empty()
            || own.is_empty() && !built.hosts.is_empty()
            || own_problems.any(|one| one.kind == ProblemKind::UnusableObject);
        let is_unready = own.iter().all(|one| one.state == "not-ready");
        let is_unlinked = |one: &Endpoint| {
            let why = one.why.as_deref().unwrap_or_default();
            why.starts_with("no Link names its cluster")
        };
        let is_closed = row["missingClusters"].is_array();
        let expected = if answered.result != "NOERROR" || !is_reachable {
            match is_closed || built.is_known && is_unready && !has_host {
                true => "attention",
                false => "failing",
            }
        } else if own.iter().any(is_unlinked) || built.problems.iter().any(Problem::is_serious) {
            "attention"
        } else {
            "ok"
        };
        assert_eq!(row["state"], expected, "{row}: {answered:?}");
        let status = server.page("status").items.remove(0);
        assert!(
            row["state"] != "failing" || status["level"] == "failing",
            "{row}"
        );
    }
}

/// Compares the numbers of a row or a cell with its endpoints.
fn check_counts<'e>(counts: &Value, endpoints: impl Iterator<Item = &'e Endpoint> + Clone) {
    let count = |is: fn(&&Endpoint) -> bool| endpoints.clone().filter(is).count();
    assert_eq!(counts["endpoints"], count(|_| true), "{counts}");
    assert_eq!(counts["alive"], count(|one| one.is_alive()), "{counts}");
    assert_eq!(counts["returned"], count(|one| one.returned), "{counts}");
}

/// `/api/v1/problems`, the status and the metrics count the same problems, and each view shows the same sentence.
fn check_problems(server: &Server, _: &mut Seen) {
    let items = server.items("problems");
    let (causes, problems): (Vec<&Value>, Vec<&Value>) =
        items.iter().partition(|one| one["section"] == "causes");
    let status = server.page("status").items.remove(0);
    let (_, metrics) = server.metrics();
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut levels = BTreeMap::from(["error", "warning", "note"].map(|level| (level, 0)));
    for (index, problem) in problems.iter().enumerate() {
        assert!(!problems[..index].contains(problem), "{problem:#}");
        let [kind, level] = ["kind", "level"].map(|field| problem[field].as_str().unwrap());
        *kinds.entry((kind, level)).or_default() += 1;
        *levels.get_mut(level).unwrap() += 1;
    }
    assert_eq!(status["problems"], json!(levels));
    // Errors come before warnings, but for those of services that fail. Effects stand below their cause.
    let own = causes.iter().filter(|one| one["cause"].is_null());
    let is_lower = |one: &&&Value| one["level"] == "warning" && one["failing"] == 0;
    let mut lower = own.skip_while(|one| !is_lower(one));
    assert!(lower.all(|one| one["level"] != "error"), "{causes:#?}");
    let mut caused: BTreeMap<&str, usize> = BTreeMap::new();
    for cause in causes {
        *caused.entry(cause["kind"].as_str().unwrap()).or_default() +=
            cause["count"].as_u64().unwrap() as usize;
        let is_same = |problem: &&Value| {
            ["kind", "sentence", "level", "hint"]
                .iter()
                .all(|part| problem[part] == cause[part])
        };
        assert!(problems.iter().any(is_same), "{cause}");
    }
    for ((kind, level), count) in kinds {
        let line = format!("global_dns_problems{{kind=\"{kind}\",level=\"{level}\"}} {count}.0");
        assert!(metrics.contains(&line), "{line}");
        let expected = if level == "note" { 0 } else { count };
        assert_eq!(
            caused.get(kind).copied().unwrap_or_default(),
            expected,
            "{kind}"
        );
    }
}

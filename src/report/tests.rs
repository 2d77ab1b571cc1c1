use serde_json::{Value, json};

use super::*;
use strum::VariantArray as _;

use crate::model::{Family, GatewayDown, ProblemKind};
use crate::table::change::ChangeKind;
use crate::table::{Rules, ServiceKind};
use crate::testing::{
    Server, endpoint, gateway, local, mirror, published, rules, table, table_by, zones,
};

fn names_of(families: &[Family]) -> Vec<&'static str> {
    let kinds = families.iter().copied().flat_map(ProblemKind::of_family);
    kinds.map(ProblemKind::name).collect()
}

/// Objects with an endpoint in every state.
fn all_states() -> Vec<Value> {
    let mut objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1", "2001:db8::1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
        gateway("prod", "db-1-east", false),
        mirror("prod", "idle", "east"),
        mirror("shop", "down", "east"),
        endpoint("shop", "down", "east", "down-0", &["10.96.0.3"]),
        gateway("shop", "down-0-east", false),
        endpoint("shop", "web", "east", "web-0", &["10.96.0.4"]),
    ];
    objects.extend(local(
        "prod",
        "db",
        &[("db-0", "192.0.2.1", true), ("db-1", "192.0.2.2", false)],
    ));
    objects
}

#[test]
fn report_as_text_has_all_sections() {
    let now = published(table(&all_states()));
    let text = Report::new(&zones(&["global"]), &now).to_text(Style::default());
    let expected = "\
generation 1, serial 1790000000, zones global.

db.prod  headless, ttl 5, short name db
  CLUSTER  HOST  ADDRESSES              PORTS                                 STATE      RETURNED  OBJECT
  east     db-0  10.96.0.1 2001:db8::1  dns:53/udp dns-tcp:53 7000 sql:26257  alive      yes       Service/prod/db-0-east
  east     db-1  10.96.0.2              dns:53/udp dns-tcp:53 7000 sql:26257  down       no        Service/prod/db-1-east
  hub      db-0  192.0.2.1              sql:26257                             alive      yes       EndpointSlice/prod/db-slice
  hub      db-1  192.0.2.2              sql:26257                             not-ready  no        EndpointSlice/prod/db-slice

idle.prod  headless, ttl 5, short name idle
  no endpoints

down.shop  headless, ttl 5, short name down
  CLUSTER  HOST    ADDRESSES  PORTS                                 STATE  RETURNED  OBJECT
  east     down-0  10.96.0.3  dns:53/udp dns-tcp:53 7000 sql:26257  down   yes       Service/shop/down-0-east

problems: 6
  warning  no-parent           Service/shop/web-0-east  Object without its parent: headless mirror 'web-east' of shop/web in cluster 'east' does not exist
  warning  not-exported        prod/db                  Member is not exported: cluster 'hub' is a member here only, and only while a mirror of its name exists: its Service is not exported
  warning  gateway-down        prod/db                  Gateway is down: cluster 'east': db-1
  warning  gateway-down        shop/down                Gateway is down: cluster 'east': down-0
  note     pod-not-ready       prod/db                  Pods are not ready: in this cluster: db-1
  warning  missing-host  Service/prod/idle-east   Headless mirror without endpoint mirrors: no host of cluster 'east'
";
    let words = |text: &str| -> Vec<Vec<String>> {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        text.lines().map(words).collect()
    };
    assert_eq!(words(&text), words(expected), "{text}");
}

#[test]
fn column_is_as_wide_as_its_widest_cell() {
    let rows = [["a", "b", "c"], ["größer", "x", ""]].map(|row| row.map(str::to_owned));
    let mut text = String::new();
    write_rows(&mut text, &rows).unwrap();
    assert_eq!(text, "  a       b  c\n  größer  x\n");
}

/// Returns the states of the endpoints of prod/db, each with the reason.
fn reasons_by(rules: &Rules, objects: &[Value]) -> Vec<String> {
    let now = published(table_by(rules, objects));
    let service = now.table.as_ref().unwrap().service("prod", "db").unwrap();
    let reply = NameReply::of_own_name(service);
    let text = |one: EndpointReport| {
        let returned = if one.returned { "+" } else { "-" };
        let why = one.why.map(|why| format!(": {why}")).unwrap_or_default();
        format!("{returned}{}{why}", one.state.name())
    };
    reply.reports(service).map(text).collect()
}

#[test]
fn endpoint_that_is_down_is_returned_by_the_rule_for_gateways() {
    use GatewayDown::{Include, LastResort};
    let reasons = |gateway_down, objects: &[Value]| {
        let rules = Rules {
            gateway_down,
            ..rules()
        };
        reasons_by(&rules, objects)
    };
    let mut objects = vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
        gateway("prod", "db-0-east", false),
    ];
    let omitted = "-down: its gateway is down";
    let included = "+down: its gateway is down; returned because gateway-down is include";
    let last = "+down: its gateway is down; returned because nothing better is left";
    assert_eq!(reasons(LastResort, &objects), [omitted, "+alive"]);
    assert_eq!(reasons(Include, &objects), [included, "+alive"]);
    let [mut own, _] = local("prod", "db", &[]);
    own["metadata"]["annotations"]["global-dns/failover"] = json!("west");
    let with_order = [&objects[..], &[own]].concat();
    // The order has one step, which has no endpoint.
    let fails = "another step of the failover order answers; the name fails: the failover step that answers has no endpoint";
    assert_eq!(
        reasons(LastResort, &with_order),
        [format!("{omitted}; {fails}"), format!("-standby: {fails}")]
    );
    objects.push(gateway("prod", "db-1-east", false));
    assert_eq!(reasons(LastResort, &objects), [last; 2]);
    assert_eq!(reasons(Include, &objects), [included; 2]);
}

/// The schemas list the values of each enumeration. Other schemas repeat the same parts.
#[test]
fn schema_has_all_values_of_the_enumerations() {
    let schema: Value = serde_json::from_str(include_str!("schema/table.json")).unwrap();
    let part = |name: &str| schema["$defs"][name].clone();
    let field = |name: &str, field: &str| part(name)["properties"][field]["enum"].clone();
    for (listed, expected) in [
        (
            part("kind")["enum"].clone(),
            ServiceKind::ALL.map(ServiceKind::name).to_vec(),
        ),
        (
            field("endpoint", "state"),
            EndpointState::VARIANTS
                .iter()
                .map(|one| one.name())
                .collect(),
        ),
        (field("skip", "reason"), names_of(&[Family::Skipped])),
        (field("conflict", "kind"), names_of(&[Family::Conflict])),
        (
            field("problem", "kind"),
            names_of(&[
                Family::Skipped,
                Family::Conflict,
                Family::State,
                Family::Server,
            ]),
        ),
    ] {
        assert_eq!(listed, serde_json::json!(expected));
    }
    let events: Value = serde_json::from_str(include_str!("schema/events.json")).unwrap();
    assert_eq!(
        events["$defs"]["event"]["properties"]["kind"]["enum"],
        json!(ChangeKind::VARIANTS)
    );
}

#[test]
fn streamed_document_equals_the_report() {
    let objects = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.0.0.1", "2001:db8::1"]),
        endpoint("prod", "db", "west", "db-1", &["10.0.0.2"]),
        mirror("shop", "db", "east"),
        endpoint("shop", "db", "east", "db-0", &["10.0.0.3"]),
    ];
    let zones = zones(&["global", "example.com"]);
    for now in [published(table(&objects)), Published::default()] {
        let report = Report::new(&zones, &now);
        let mut written = Vec::new();
        let of_server: Vec<_> = now.problem().into_iter().collect();
        write_report(&mut written, &zones, &now, None, &of_server).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            serde_json::to_string(&report).unwrap()
        );
    }
    let report = Report::new(&zones, &published(table(&objects)));
    assert!(
        !report.services.is_empty() && !report.skipped.is_empty() && !report.conflicts.is_empty()
    );
}

#[test]
fn summary_lists_clusters_with_trouble_if_the_map_is_wider_than_the_terminal() {
    let now = published(table(&all_states()));
    let mut summary = Summary::new(&zones(&["global"]), &now);
    summary.sort();
    let text = |width| {
        let style = Style {
            width: Some(width),
            ..Style::default()
        };
        let text = summary.to_text(style);
        text.lines()
            .skip(2)
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect::<String>()
    };
    let map = "     SERVICE    RESULT    RETURNED  east        hub
  ×  down.shop  NOERROR   1         × 0/1 down  -
  ‼  db.prod    NOERROR   2         × 1/2 down  ‼ 1/2 not-ready
  ‼  idle.prod  NXDOMAIN  0         -           -

services: 3, failing: 1, need attention: 2
";
    assert_eq!(text(80), map);
    let list = "     SERVICE    RESULT    RETURNED  CLUSTERS
  ×  down.shop  NOERROR   1         east × 0/1 down
  ‼  db.prod    NOERROR   2         east × 1/2 down, hub ‼ 1/2 not-ready
  ‼  idle.prod  NXDOMAIN  0

services: 3, failing: 1, need attention: 2
";
    assert_eq!(text(60), list);
}

#[test]
fn times_of_problems_are_aligned_and_times_in_their_texts_are_kept() {
    let mut report = Report::new(&zones(&["global"]), &published(table(&all_states())));
    let mut other = report.problems[0].clone();
    other.detail = "2026-11-24T03:12:00Z".into();
    other.age.since = None;
    report.problems[0].age.since = Some("2026-11-24T03:12:00Z".to_owned());
    report.problems[0].detail = other.detail.clone();
    report.problems = vec![report.problems[0].clone(), other];
    let zone = jiff::tz::TimeZone::posix("CET-1").unwrap();
    let style = Style {
        zone: Some(Box::leak(Box::new(zone))),
        ..Style::default()
    };
    let text = report.to_text(style);
    let (_, rows) = text.split_once("problems: 2\n").unwrap();
    assert_eq!(rows.matches("2026-11-24T03:12:00Z").count(), 2, "{text}");
    assert_eq!(
        rows.matches("since 2026-11-24 04:12:00 CET  ").count(),
        1,
        "{text}"
    );
    let columns = rows.lines().map(|row| row.find(": 2026"));
    assert_eq!(
        columns.collect::<std::collections::BTreeSet<_>>().len(),
        1,
        "{text}"
    );
}

#[test]
fn problem_of_the_first_table_began_before_it() {
    let mut server = Server::new(rules());
    let cluster = |cluster: &str, address: &str, is_up: bool| {
        [
            mirror("prod", "db", cluster),
            endpoint("prod", "db", cluster, "db-0", &[address]),
            gateway("prod", &format!("db-0-{cluster}"), is_up),
        ]
    };
    let east = || cluster("east", "10.96.0.1", false);
    let west = |is_up| cluster("west", "10.96.0.2", is_up);
    server.see(10, &[east(), west(true)].concat());
    server.timers.note_started();
    server.see(20, &[east(), west(false)].concat());
    let (zones, now) = (zones(&["global"]), published(server.table));
    let document = |report: Value| json!([report["cluster"], report["since"], report["isOlder"]]);
    let expected = json!([
        ["east", "1970-01-01T00:00:10Z", true],
        ["west", "1970-01-01T00:00:20Z", null],
    ]);
    let report = Report::new(&zones, &now);
    let down = report.problems.iter();
    let down = down.filter(|one| one.kind == ProblemKind::GatewayDown);
    let ages: Vec<String> = down
        .clone()
        .map(|one| one.age.to_text(Style::default()))
        .collect();
    assert_eq!(
        ages,
        ["before 1970-01-01T00:00:10Z", "since 1970-01-01T00:00:20Z"]
    );
    let problems: Value = down.map(|one| document(json!(one))).collect();
    let service = now.table.as_ref().unwrap().service("prod", "db").unwrap();
    let reply = NameReply::of_own_name(service);
    let endpoints: Value = reply
        .reports(service)
        .map(|one| document(json!(one)))
        .collect();
    let cells = ServiceRow::new(&zones, &now, service).cells.into_iter();
    let cells: Value = cells.map(|one| document(json!(one))).collect();
    for views in [problems, endpoints, cells] {
        assert_eq!(views, expected);
    }
}

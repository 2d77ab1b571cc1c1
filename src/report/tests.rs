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
            ServiceKind::ALL.iter().map(|kind| kind.name()).collect(),
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
    server.timers.is_started = true;
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

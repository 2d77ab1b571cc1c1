//! Invented summaries: many causes, many clusters, long names, and a server that gives no stream.

use serde_json::{Value, json};
use support::server::Server;

use crate::browser::chromium::{Chromium, PHONE, Window};
use crate::browser::{demo, url};

const LAPTOP: Window = Window(1280, 800, "light");

/// Opens the page with a summary that `change` has changed. It starts without services and causes, and with the own cluster.
/// There is no stream, which would replace it.
fn open_with(change: impl FnOnce(&mut Value), route: &str, window: Window) -> (Server, Chromium) {
    let server = demo();
    let mut summary = server.api("/api/v1/summary");
    summary["level"] = json!("fine");
    for list in ["services", "attention"] {
        summary[list] = json!([]);
    }
    change(&mut summary);
    let summary = summary.to_string();
    let mut chromium = Chromium::start();
    chromium.resize(window);
    chromium.substitute(Box::new(move |path| {
        let document = match path {
            "summary" => &summary,
            history if history.starts_with("history") => return None,
            _ => "{}",
        };
        Some((document.to_owned(), "application/json"))
    }));
    chromium.go(&url(&server, route));
    chromium.wait_for("document.body.dataset.link === 'polling'");
    (server, chromium)
}

fn service(name: &str, level: &str, result: &str, cells: &[(&str, &str)]) -> Value {
    let cell = |(cluster, state): &(&str, &str)| {
        let alive = u64::from(*state == "alive");
        json!({"cluster": cluster, "state": state, "alive": alive, "endpoints": 1, "returned": alive})
    };
    let cells: Vec<Value> = cells.iter().map(cell).collect();
    json!({"namespace": "prod", "service": name, "kind": "headless", "level": level, "result": result, "returned": 1,
        "alive": 1, "endpoints": cells.len(), "cells": cells})
}

fn cause(subject: &str, sentence: &str, failing: u64) -> Value {
    json!({"kind": "invented", "level": "warning", "sentence": sentence, "subject": subject, "detail": "cluster 'east': db-0",
        "count": 1, "services": 2, "endpoints": 0, "failing": failing, "hint": "look", "anchor": "problems.html"})
}

/// Chromium complains about the missing stream.
fn assert_no_other_complaint(chromium: &mut Chromium) {
    let complaints = chromium.complaints();
    let is_known = |complaint: &String| complaint.contains("EventSource");
    assert!(complaints.iter().all(is_known), "{complaints:?}");
}

fn texts(chromium: &mut Chromium, selector: &str) -> Vec<String> {
    let texts = chromium.evaluate(&format!(
        "[...document.querySelectorAll('{selector}')].map((node) => node.textContent)"
    ));
    serde_json::from_value(texts).unwrap()
}

fn cluster(number: usize) -> String {
    format!("production-europe-cluster-{number:04}")
}

/// Services in many clusters. One is down in cluster 900, another, which still answers, in cluster 12.
fn fill_clusters(summary: &mut Value, clusters: usize, failing: usize) {
    let names: Vec<String> = (1..=clusters).map(cluster).collect();
    let fine: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "alive")).collect();
    let mut services: Vec<Value> = (0..40)
        .map(|number| service(&format!("web-{number:02}"), "fine", "NOERROR", &fine))
        .collect();
    let (worst, bad) = (cluster(failing), cluster(12));
    services.push(service("db", "failing", "SERVFAIL", &[(&worst, "down")]));
    services.push(service("kv", "attention", "NOERROR", &[(&bad, "down")]));
    summary["services"] = json!(services);
    summary["level"] = json!("failing");
}

#[test]
fn sentence_points_to_the_causes_that_fail_and_counts_the_others() {
    let watches = "EndpointSlices of mirrors, headless Services, exported Services";
    let (_server, mut chromium) = open_with(
        |summary| {
            summary["level"] = json!("failing");
            summary["services"] = json!([service("db", "failing", "SERVFAIL", &[])]);
            let mut of_cluster = cause("east", "Gateway is down", 0);
            of_cluster["cluster"] = json!("east");
            of_cluster["service"] = json!("shop/pay");
            summary["attention"] = json!([
                cause("shop/pay", "No endpoint", 1),
                cause("shop/pay", "Gate is closed", 1),
                cause("", "Table is old", 1),
                cause(watches, "Source of objects fails", 0),
                of_cluster,
            ]);
            summary["moreAttention"] = json!(7);
        },
        "",
        LAPTOP,
    );
    assert_eq!(chromium.text("#sentence"), "1 service fails");
    // Two of four, and those that are not listed.
    assert_eq!(chromium.text("#where"), "shop/pay, Table is old and 9 more");
    chromium.evaluate("document.querySelector('#attention .rest button').click()");
    let lines = texts(&mut chromium, "#attention .cause p");
    assert!(lines[0].contains("1 service fails"), "{lines:?}");
    assert!(
        lines[3].starts_with("EndpointSlices of mirrors, headless Serv… Source of objects fails "),
        "{lines:?}"
    );
    assert!(
        lines[4].starts_with("east Gateway is down: shop/pay "),
        "{lines:?}"
    );
    let long =
        "[...document.querySelectorAll('#attention .cause')][3].querySelector('a').dataset.tip";
    assert_eq!(chromium.evaluate(long), watches);
    // The subject leads to the services of the cluster.
    let target = "[...document.querySelectorAll('#attention .cause')][4].querySelector('a').getAttribute('href')";
    assert_eq!(chromium.evaluate(target), "#/?cluster=east&state=trouble");
    assert_no_other_complaint(&mut chromium);
}

#[test]
fn number_of_the_sentence_leads_to_exactly_these_services() {
    let (_server, mut chromium) = open_with(
        |summary| {
            summary["level"] = json!("failing");
            summary["services"] = json!([
                service("cache", "failing", "SERVFAIL", &[("east", "down")]),
                service("db", "attention", "NOERROR", &[("east", "down")]),
                service("gone", "fine", "NXDOMAIN", &[]),
                service("web", "fine", "NOERROR", &[("east", "alive")]),
            ]);
        },
        "",
        LAPTOP,
    );
    assert_eq!(
        chromium.text("#sentence"),
        "1 service fails, 2 need attention"
    );
    for (state, expected) in [
        ("attention", &["db.prod", "gone.prod"][..]),
        ("failing", &["cache.prod"]),
        ("trouble", &["cache.prod", "db.prod", "gone.prod"]),
        ("trouble&cluster=east", &["cache.prod", "db.prod"]),
    ] {
        chromium.evaluate(&format!("location.hash = '#/?state={state}'"));
        let count = format!("{} of 4", expected.len());
        chromium.wait_for_text("#services-count", &count);
        assert_eq!(texts(&mut chromium, "#map tbody a"), expected, "{state}");
    }
    assert_no_other_complaint(&mut chromium);
}

#[test]
fn clusters_in_trouble_are_the_first_after_this_one_and_keep_the_focus() {
    let (_server, mut chromium) = open_with(|summary| fill_clusters(summary, 15, 14), "", LAPTOP);
    let heads = "[...document.querySelectorAll('#map thead th.cell')].map((head) => head.abbr)";
    let first = [
        "hub".to_owned(),
        cluster(14),
        cluster(12),
        cluster(1),
        cluster(2),
    ];
    assert_eq!(
        chromium.evaluate(&format!("{heads}.slice(0, 5)")),
        json!(first)
    );
    let right = "document.querySelector('#map td.in-failing').getBoundingClientRect().right";
    assert!(chromium.evaluate(right).as_f64().unwrap() < 1280.0);
    chromium.screenshot("clusters-1280-light");
    // The head filters, and once more removes the filter.
    let head = format!(
        "document.querySelector('#map thead [abbr=\"{}\"] a')",
        cluster(14)
    );
    chromium.evaluate(&format!("{head}.focus()"));
    for expected in ["41 of 42", "42"] {
        chromium.press("Enter");
        let count = "document.querySelector('#services-count').innerText";
        chromium.wait_for(&format!("{count}.startsWith('{expected}')"));
        assert_eq!(
            chromium.evaluate(&format!("document.activeElement === {head}")),
            true
        );
    }
    assert_no_other_complaint(&mut chromium);
}

#[test]
fn a_thousand_clusters_have_forty_columns() {
    let (_server, mut chromium) =
        open_with(|summary| fill_clusters(summary, 1000, 900), "", LAPTOP);
    let heads = |chromium: &mut Chromium| {
        let heads = "[...document.querySelectorAll('#map thead th.cell')].map((head) => head.abbr || head.textContent)";
        serde_json::from_value::<Vec<String>>(chromium.evaluate(heads)).unwrap()
    };
    let shown = heads(&mut chromium);
    assert_eq!(shown.len(), 41);
    assert_eq!(shown[..3], ["hub".to_owned(), cluster(900), cluster(12)]);
    // The cluster of this server has a column, too.
    assert_eq!(shown[40], "+961 more");
    let nodes = chromium.evaluate("document.querySelectorAll('*').length");
    assert!(nodes.as_u64().unwrap() < 20_000, "{nodes}");
    chromium.screenshot("thousand-clusters-1280-light");
    let other = cluster(777);
    assert!(!shown.contains(&other));
    chromium.evaluate(&format!("location.hash = '#/?cluster={other}'"));
    chromium.wait_for(&format!(
        "document.querySelector('#map thead [abbr=\"{other}\"]')"
    ));
    assert_eq!(heads(&mut chromium)[1], other);
    assert_eq!(heads(&mut chromium).len(), 41);
    assert_no_other_complaint(&mut chromium);
}

#[test]
fn phone_shows_one_cluster_in_trouble_and_counts_the_others() {
    let long = "production-europe-cluster-of-the-shop";
    let (_server, mut chromium) = open_with(
        |summary| {
            summary["level"] = json!("failing");
            let down = [(long, "down"), ("east", "down"), ("west", "not-ready")];
            summary["services"] = json!([
                service("cache", "failing", "SERVFAIL", &[("east", "alive")]),
                service("db", "attention", "NOERROR", &down),
                service("web", "fine", "NOERROR", &[("east", "alive")]),
            ]);
        },
        "",
        PHONE,
    );
    assert_eq!(
        texts(&mut chromium, "#map td.trouble"),
        [
            "SERVFAIL".to_owned(),
            format!("{long} +2 0/1 down"),
            "1 cluster".to_owned()
        ]
    );
    let right = "Math.max(...[...document.querySelectorAll('.trouble small, .trouble .words')].map((node) => node.getBoundingClientRect().right))";
    assert!(chromium.evaluate(right).as_f64().unwrap() <= 360.0);
    let is_cut = "(({scrollWidth, clientWidth}) => scrollWidth > clientWidth)(document.querySelector('.trouble .name'))";
    assert_eq!(chromium.evaluate(is_cut), true);
    chromium.screenshot("trouble-360-light");
    assert_no_other_complaint(&mut chromium);
}

#[test]
fn page_says_that_it_asks_now_and_then_if_there_is_no_stream() {
    let server = demo();
    let mut chromium = Chromium::start();
    chromium.resize(LAPTOP);
    chromium.substitute(Box::new(|path| {
        path.starts_with("events")
            .then(|| ("{}".to_owned(), "application/json"))
    }));
    chromium.go(&url(&server, ""));
    chromium.wait_for_text("#link", "Every 5 s");
    chromium.wait_for_text("#map", "db.prod");
}

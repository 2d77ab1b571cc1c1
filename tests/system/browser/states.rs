//! States of the server, changes without a reload, a restart, and a hidden page.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde_json::json;
use support::objects::{Gateway, Manifest, Mirror, mirror, objects};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;

use crate::browser::chromium::{Chromium, PHONE, WIDE, Window};
use crate::browser::{open, url};

const DARK: Window = Window(1440, 900, "dark");

fn db(cluster: &str, address: &str) -> Mirror {
    mirror("prod", "db", cluster).endpoint("db-0", &[address])
}

fn list(mirror: Mirror) -> String {
    Manifest::from(mirror).list()
}

fn serve(manifest: impl Into<Manifest>, flags: &[&str]) -> Server {
    let own = ["--cluster-name=hub", "--grace=0s"];
    Server::with_text(&manifest.into().list(), &[&own, flags].concat())
}

/// Marks the document. A reload would remove the mark.
fn mark(chromium: &mut Chromium) {
    chromium.evaluate("window.mark = true");
}

fn assert_not_reloaded(chromium: &mut Chromium) {
    assert_eq!(chromium.evaluate("window.mark"), true);
}

/// Notes the messages of the stream, and what the map shows after the page has handled each of them.
const NOTE_STREAM: &str = "(() => {
    window.streamed = [];
    const add = EventSource.prototype.addEventListener;
    EventSource.prototype.addEventListener = function (type, listener) {
        add.call(this, type, (message) => {
            listener(message);
            streamed.push({type, data: message.data, map: document.getElementById('map').innerText});
        });
    };
})()";

/// The server sends a change within a second (`src/admin/follow/tests.rs`). The page must show it at once.
#[test]
fn change_is_shown_as_soon_as_the_stream_brings_it() {
    let server = serve(db("east", "192.0.2.1"), &[]);
    let mut chromium = Chromium::start();
    chromium.resize(WIDE);
    chromium.run_before(NOTE_STREAM);
    chromium.go(&url(&server, "#/changes"));
    chromium.wait_for_text("#change-list", "Nothing has changed yet");
    chromium.evaluate("location.hash = '#/?name=db.prod.global'");
    chromium.wait_for_text("#explanation", "192.0.2.1");
    chromium.wait_for("document.body.dataset.link === 'live'");
    mark(&mut chromium);
    chromium.record_responses();
    for number in 2..5 {
        let (cluster, address) = (format!("west-{number}"), format!("192.0.2.{number}"));
        let both = objects()
            .with(db("east", "192.0.2.1"))
            .with(db(&cluster, &address));
        server.rewrite(&both.list());
        let first = "streamed.find(({type, data}) => type === 'summary' && data.includes(cluster))";
        let first = first.replace("cluster", &json!(cluster).to_string());
        chromium.wait_for(&first);
        let shown = chromium.evaluate(&format!("{first}.map"));
        assert!(shown.as_str().unwrap().contains(&cluster), "{shown}");
        chromium.wait_for_text("#explanation", &address);
    }
    // The page did not ask for what the stream brings.
    let responses = chromium.responses(&url(&server, "api/v1/"));
    let is_of_answer = |(path, status): &(String, u64)| {
        (path.starts_with("explain?") || path.starts_with("history")) && *status == 200
    };
    assert!(responses.iter().all(is_of_answer), "{responses:?}");
    chromium.evaluate("location.hash = '#/changes?service=prod/db'");
    chromium.wait_for_text("#change-list", "west-4");
    chromium.screenshot("change-1440-light");
    server.rewrite(&list(db("west-4", "192.0.2.4")));
    chromium.wait_for_text("#change-list", "Cluster east left");
    assert_not_reloaded(&mut chromium);
    chromium.assert_no_complaint();
}

#[test]
fn gateway_that_goes_down_appears_in_sentence_map_answer_and_changes() {
    let both = |gateway| {
        let west = mirror("prod", "db", "west").endpoint_behind(gateway, "db-0", &["192.0.2.2"]);
        objects().with(db("east", "192.0.2.1")).with(west).list()
    };
    let server = Server::with_text(&both(Gateway::Up), &["--cluster-name=hub", "--grace=0s"]);
    let mut chromium = open(&server, "#/?name=db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "192.0.2.2");
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    server.rewrite(&both(Gateway::Down));
    chromium.wait_for_text("#explanation", "Its gateway is down");
    chromium.wait_for_text("#explanation", "History");
    chromium.wait_for_text("#sentence", "1 service needs attention");
    chromium.wait_for_text("#attention", "Gateway is down");
    chromium.wait_for("document.querySelector('#map td .attention [href=\"#i-down\"]')");
    assert!(chromium.text("#map").contains("0/1"));
    chromium.screenshot("gateway-down-1440-light");
    server.rewrite(&both(Gateway::Up));
    chromium.wait_for("!document.querySelector('#map td [href=\"#i-down\"]')");
    chromium.wait_for_text("#sentence", "All names are answered");
    // The change is known only half a second after the answer, because further endpoints of the gateway may follow.
    wait_for("the change", || {
        let events = server.api("/api/v1/events").to_string();
        events.contains("gateway-up").then_some(())
    });
    chromium.evaluate("location.hash = '#/changes?service=prod/db'");
    for shape in [".attention [href=\"#i-down\"]", ".fine [href=\"#i-alive\"]"] {
        chromium.wait_for(&format!("document.querySelector('#change-list {shape}')"));
    }
    // Each has its cause and the object behind it. The newest is first.
    let reasons =
        "[...document.querySelectorAll('#change-list .reason')].map((one) => one.innerText)";
    let object = "Service/prod/db-0-west";
    assert_eq!(
        chromium.evaluate(reasons),
        json!([
            format!("Cause: gateway ready · {object}"),
            format!("Cause: gateway down · {object}"),
        ])
    );
    chromium.screenshot("reasons-1440-light");
    chromium.assert_no_complaint();
}

#[test]
fn page_survives_a_restart_of_the_server() {
    let first = serve(db("east", "192.0.2.1"), &[]);
    let address = first.api;
    let mut chromium = open(&first, "#/?name=db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "192.0.2.1");
    mark(&mut chromium);
    chromium.assert_no_complaint();
    drop(first);
    chromium.wait_for_text("#sentence", "Disconnected since");
    assert_eq!(chromium.text("#link"), "Disconnected");
    assert_eq!(chromium.evaluate("headline.className"), "failing");
    // The last known state remains.
    assert!(chromium.text("#explanation").contains("192.0.2.1"));
    chromium.screenshot("disconnected-1440-light");
    chromium.resize(PHONE);
    chromium.screenshot("disconnected-360-light");
    chromium.resize(WIDE);
    let second = serve(
        db("west", "192.0.2.7"),
        &[&format!("--api-listen={address}")],
    );
    chromium.wait_for_text("#link", "Live");
    chromium.wait_for_text("#explanation", "192.0.2.7");
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    assert!(!chromium.text("#map").contains("east"));
    assert_not_reloaded(&mut chromium);
    // The stream works again.
    second.rewrite(&list(db("north", "192.0.2.8")));
    chromium.wait_for_text("#map", "north");
    let complaints = chromium.complaints();
    let is_network = |complaint: &String| complaint.contains("net::ERR_");
    assert!(complaints.iter().all(is_network), "{complaints:?}");
}

#[test]
fn page_waits_for_the_first_table() {
    let objects = db("east", "192.0.2.1").writes();
    let standin = StandIn::start(Behavior::InternalErrors, &objects).unwrap();
    let server = Server::of_cluster(&standin.kubeconfig, &[]);
    let mut chromium = Chromium::open(&url(&server, ""), WIDE);
    chromium.wait_for_text("#sentence", "No answers yet: SERVFAIL for every name");
    chromium.wait_for_text("#blank", "Waiting for the first complete table");
    chromium.wait_for("document.querySelector('#attention .cause')");
    assert_eq!(chromium.evaluate("headline.className"), "failing");
    chromium.screenshot("loading-1440-light");
    chromium.resize(Window(360, 740, "dark"));
    chromium.screenshot("loading-360-dark");
    standin.set_behavior(Behavior::Normal);
    chromium.wait_for_text("#sentence", "1 problem needs attention");
    chromium.wait_for_text("#map", "db.prod");
    chromium.assert_no_complaint();
}

#[test]
fn page_of_a_cluster_without_services_is_empty() {
    let server = serve(objects(), &[]);
    let mut chromium = open(&server, "", DARK);
    chromium.wait_for_text("#blank", "No services yet");
    assert_eq!(chromium.text("#sentence"), "No services yet");
    chromium.screenshot("empty-1440-dark");
    server.rewrite(&list(db("east", "192.0.2.1")));
    chromium.wait_for_text("#map", "db.prod");
    chromium.assert_no_complaint();
}

#[test]
fn dead_api_server_is_one_line() {
    let standin = StandIn::start(Behavior::Normal, &db("east", "192.0.2.1").writes()).unwrap();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &["--links=off"]);
    let mut chromium = open(&server, "", WIDE);
    standin.set_behavior(Behavior::InternalErrors);
    wait_for("the failures of all watches", || {
        let problems = server
            .api("/api/v1/problems?kind=source-failed")
            .to_string();
        let watches = [
            "mirrors",
            "headless Services",
            "exported Services",
            "other controllers",
        ];
        let is_named = |watch: &str| problems.contains(&format!("EndpointSlices of {watch}"));
        watches.into_iter().all(is_named).then_some(())
    });
    // What fails is a long list.
    chromium.wait_for_text("#attention", "… Source of objects fails since");
    chromium.evaluate("document.querySelector('#attention .fold').click()");
    chromium.wait_for_text("#attention .affected", "EndpointSlices of mirrors");
    assert_eq!(
        chromium.evaluate("document.querySelectorAll('#attention > li').length"),
        1
    );
    assert_ne!(chromium.evaluate("headline.className"), "fine");
    chromium.screenshot("dead-api-server-1440-light");
    chromium.assert_no_complaint();
}

#[test]
fn hidden_page_makes_no_request_and_catches_up_when_it_is_shown() {
    let server = serve(db("east", "192.0.2.1"), &[]);
    let mut chromium = open(&server, "#/?name=db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "192.0.2.1");
    chromium.record_responses();
    let base = url(&server, "api/v1/");
    chromium.hide();
    chromium.unhide();
    chromium.wait_for("document.body.dataset.link === 'live'");
    // Nothing has changed, so the server sends nothing again.
    wait_for("the stream", || {
        let responses = chromium.responses(&base);
        assert!(
            responses
                .iter()
                .all(|(path, status)| path != "summary" || *status == 304),
            "{responses:?}"
        );
        responses
            .iter()
            .any(|(path, _)| path.starts_with("events?"))
            .then_some(())
    });
    chromium.hide();
    let before = chromium.settled_responses(&base);
    server.rewrite(&list(db("east", "192.0.2.2")));
    thread::sleep(Duration::from_secs(2));
    assert_eq!(chromium.responses(&base).len(), before);
    assert!(!chromium.text("#explanation").contains("192.0.2.2"));
    chromium.unhide();
    chromium.wait_for_text("#explanation", "192.0.2.2");
    wait_for("the requests of a new page", || {
        let responses = chromium.responses(&base);
        let paths = responses[before..]
            .iter()
            .map(|(path, _)| path.split('?').next().unwrap());
        (paths.collect::<BTreeSet<_>>() == ["events", "explain", "history", "summary"].into())
            .then_some(())
    });
    chromium.assert_no_complaint();
}

//! States of the server, changes without a reload, a restart, and a hidden page.

use std::thread;
use std::time::Duration;

use serde_json::json;
use support::objects::{Gateway, Manifest, Mirror, mirror, objects};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;

use crate::browser::chromium::{Chromium, WIDE};
use crate::browser::{open, url};

fn db(cluster: &str, address: &str) -> Mirror {
    mirror("prod", "db", cluster).endpoint("db-0", &[address])
}

fn list(mirror: Mirror) -> String {
    Manifest::from(mirror).list()
}

fn serve(manifest: impl Into<Manifest>, flags: &[&str]) -> Server {
    let own = ["--cluster-name=hub", "grace=0s"];
    Server::with_text(&manifest.into().list(), &[&own, flags].concat())
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

/// Waits until the stream brings a text, and checks that the map shows another one as soon as the message is handled.
fn assert_shown_at_once(chromium: &mut Chromium, brought: &str, shown: &str) {
    let first = format!(
        "streamed.find(({{type, data}}) => type === 'summary' && data.includes({}))",
        json!(brought)
    );
    chromium.wait_for(&first);
    let map = chromium.evaluate(&format!("{first}.map"));
    assert!(map.as_str().unwrap().contains(shown), "{brought}: {map}");
}

/// The server sends a change within a second (`src/admin/follow/tests.rs`). The page must show it at once.
#[test]
fn change_is_shown_as_soon_as_the_stream_brings_it() {
    let server = serve(objects(), &[]);
    let mut chromium = Chromium::start(WIDE);
    chromium.run_before(NOTE_STREAM);
    chromium.go(&url(&server, ""));
    chromium.wait_for_text("#blank", "No services yet");
    chromium.wait_for("document.body.dataset.link === 'live'");
    // A reload would remove the mark.
    chromium.evaluate("window.mark = true");
    chromium.evaluate("location.hash = '#/?name=db.prod.global'");
    chromium.wait_for_text("#explanation", "NXDOMAIN");
    chromium.record_responses();
    let behind = |gateway| {
        let west = mirror("prod", "db", "west").endpoint_behind(gateway, "db-0", &["192.0.2.2"]);
        objects().with(db("east", "192.0.2.1")).with(west).list()
    };
    server.rewrite(&behind(Gateway::Up));
    assert_shown_at_once(&mut chromium, "west", "west");
    chromium.wait_for_text("#explanation", "192.0.2.2");
    chromium.wait_for_text("#sentence", "All names are answered");
    server.rewrite(&behind(Gateway::Down));
    assert_shown_at_once(&mut chromium, "gateway-down", "0/1");
    chromium.wait_for_text("#explanation", "Its gateway is down");
    chromium.wait_for_text("#sentence", "1 service needs attention");
    chromium.wait_for_text("#attention", "Gateway is down");
    chromium.screenshot("gateway-down-1440-light");
    server.rewrite(&behind(Gateway::Up));
    chromium.wait_for_text("#sentence", "All names are answered");
    // The page did not ask for what the stream brings.
    let responses = chromium.responses(&url(&server, "api/v1/"));
    let is_of_answer = |(path, _): &(String, u64)| {
        ["explain?", "status", "events"]
            .iter()
            .any(|one| path.starts_with(one))
    };
    assert!(responses.iter().all(is_of_answer), "{responses:?}");
    // The change is known only half a second after the answer, because further endpoints of the gateway may follow.
    wait_for("the change", || {
        let events = server.api("/api/v1/events").to_string();
        events.contains("\"up\"").then_some(())
    });
    chromium.evaluate("location.hash = '#/changes?service=prod/db'");
    for text in ["is up again", "no address of its gateway is ready"] {
        chromium.wait_for_text("#change-list", text);
    }
    server.rewrite(&list(db("east", "192.0.2.1")));
    chromium.wait_for_text("#change-list", "Cluster west left");
    chromium.screenshot("change-1440-light");
    assert_eq!(chromium.evaluate("window.mark"), true);
    chromium.assert_no_complaint();
}

/// Holds each list of changes back until the test releases it.
const HOLD_CHANGES: &str = "(() => {
    window.held = [];
    const original = window.fetch;
    window.fetch = async (url, ...more) => {
        const response = await original(url, ...more);
        const isList = String(url).includes('api/v1/events');
        if (isList) await new Promise((release) => held.push(release));
        return response;
    };
})()";

#[test]
fn change_that_arrives_while_the_others_are_loaded_is_shown() {
    let server = serve(db("east", "192.0.2.1"), &[]);
    let mut chromium = Chromium::start(WIDE);
    chromium.run_before(NOTE_STREAM);
    chromium.run_before(HOLD_CHANGES);
    chromium.go(&url(&server, "#/changes"));
    chromium.wait_for("held.length > 0 && document.body.dataset.link === 'live'");
    server.rewrite(
        &objects()
            .with(db("east", "192.0.2.1"))
            .with(db("west", "192.0.2.2"))
            .list(),
    );
    chromium
        .wait_for("streamed.some(({type, data}) => type === 'change' && data.includes('west'))");
    // The list is loaded again, because the stream began after the first request.
    chromium.evaluate("held.push = (release) => release(); held.forEach((release) => release())");
    chromium.wait_for_text("#change-list", "Cluster west joined");
    chromium.assert_no_complaint();
}

#[test]
fn page_survives_a_restart_of_the_server() {
    let first = serve(db("east", "192.0.2.1"), &[]);
    let address = first.api;
    let mut chromium = open(&first, "#/?name=db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "192.0.2.1");
    // A reload would remove the mark.
    chromium.evaluate("window.mark = true");
    chromium.assert_no_complaint();
    drop(first);
    chromium.wait_for_text("#sentence", "Disconnected since");
    assert_eq!(chromium.text("#link"), "Disconnected");
    assert_eq!(chromium.evaluate("headline.className"), "failing");
    // The last known state remains.
    assert!(chromium.text("#explanation").contains("192.0.2.1"));
    let second = serve(
        db("west", "192.0.2.7"),
        &[&format!("--api-listen={address}")],
    );
    chromium.wait_for_text("#link", "Live");
    chromium.wait_for_text("#explanation", "192.0.2.7");
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    assert!(!chromium.text("#map").contains("east"));
    assert_eq!(chromium.evaluate("window.mark"), true);
    // The stream works again.
    second.rewrite(&list(db("north", "192.0.2.8")));
    chromium.wait_for_text("#map", "north");
}

#[test]
fn page_waits_for_the_first_table_and_a_dead_api_server_is_one_line() {
    let objects = db("east", "192.0.2.1").writes();
    let standin = StandIn::start(Behavior::InternalErrors, &objects).unwrap();
    let server = Server::of_cluster(&standin.kubeconfig, &["links.enabled=false"]);
    let mut chromium = Chromium::open(&url(&server, ""), WIDE);
    chromium.wait_for_text("#sentence", "No answers yet: SERVFAIL for every name");
    chromium.wait_for_text("#blank", "Waiting for the first complete table");
    assert_eq!(chromium.evaluate("headline.className"), "failing");
    chromium.screenshot("loading-1440-light");
    standin.set_behavior(Behavior::Normal);
    chromium.wait_for_text("#map", "db.prod");
    chromium.wait_for_text("#sentence", "All names are answered");
    standin.set_behavior(Behavior::InternalErrors);
    // The watches fail one after the other.
    let failing = "Services, EndpointSlices Source of objects fails since";
    chromium.wait_for_text("#attention", failing);
    let lines = "document.querySelectorAll('#attention > li').length";
    assert_eq!(chromium.evaluate(lines), 1);
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
    let before = chromium.settled_responses(&base);
    server.rewrite(&list(db("east", "192.0.2.2")));
    thread::sleep(Duration::from_secs(2));
    assert_eq!(chromium.responses(&base).len(), before);
    chromium.unhide();
    chromium.wait_for_text("#explanation", "192.0.2.2");
    chromium.assert_no_complaint();
}

//! States of the server, changes without a reload, and a restart.

use std::fs;
use std::time::{Duration, Instant};

use support::objects::{Gateway, Manifest, Mirror, mirror, objects};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;

use crate::chromium::{Chromium, PHONE, WIDE, Window};
use crate::{open, url};

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

#[test]
#[ignore = "needs Chromium"]
fn change_appears_within_a_second_without_a_reload() {
    let server = serve(db("east", "192.0.2.1"), &[]);
    let mut chromium = open(&server, "#/name/db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "192.0.2.1");
    mark(&mut chromium);
    let mut delays = Vec::new();
    for number in 2..7 {
        let address = format!("192.0.2.{number}");
        let both = objects()
            .with(db("east", "192.0.2.1"))
            .with(db("west", &address));
        server.rewrite(&both.list());
        let begin = Instant::now();
        chromium.wait_for_text("#explanation", &address);
        chromium.wait_for_text("#map thead", "west");
        delays.push(begin.elapsed());
    }
    println!("changes appeared after {delays:?}");
    // Other work on the machine can delay single changes.
    assert!(
        delays.iter().min().unwrap() < &Duration::from_secs(1),
        "{delays:?}"
    );
    chromium.wait_for_text("#events", "west");
    chromium.screenshot("change-1440-light");
    server.rewrite(&list(db("west", "192.0.2.9")));
    chromium.wait_for("!document.querySelector('#map thead').innerText.includes('east')");
    assert_not_reloaded(&mut chromium);
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn gateway_that_goes_down_appears_in_map_explanation_and_events() {
    let both = |gateway| {
        let west = mirror("prod", "db", "west").endpoint_behind(gateway, "db-0", &["192.0.2.2"]);
        objects().with(db("east", "192.0.2.1")).with(west).list()
    };
    let server = Server::with_text(&both(Gateway::Up), &["--cluster-name=hub", "--grace=0s"]);
    let mut chromium = open(&server, "#/name/db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "192.0.2.2");
    server.rewrite(&both(Gateway::Down));
    chromium.wait_for_text("#explanation", "Its gateway is down.");
    chromium.wait_for("document.querySelector('#map td .icon.gateway-down')");
    chromium.wait_for("document.querySelector('#events .bad .gateway-down')");
    assert!(chromium.text("#map").contains("0/1"));
    chromium.screenshot("gateway-down-1440-light");
    server.rewrite(&both(Gateway::Up));
    chromium.wait_for("!document.querySelector('#map td .icon.gateway-down')");
    chromium.wait_for("document.querySelector('#events .good .answered')");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn page_survives_a_restart_of_the_server() {
    let first = serve(db("east", "192.0.2.1"), &[]);
    let address = first.api;
    let mut chromium = open(&first, "#/name/db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "192.0.2.1");
    mark(&mut chromium);
    chromium.assert_no_complaint();
    drop(first);
    chromium.wait_for_text("#state", "Disconnected");
    chromium.wait_for_text("#problems", "Disconnected since");
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
    chromium.wait_for_text("#state", "Ready");
    chromium.wait_for_text("#explanation", "192.0.2.7");
    chromium.wait_for("document.querySelector('#problems').hidden");
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
#[ignore = "needs Chromium"]
fn page_waits_for_the_first_table() {
    let objects = db("east", "192.0.2.1").writes();
    let standin = StandIn::start(Behavior::InternalErrors, &objects).unwrap();
    let server = Server::of_cluster(&standin.kubeconfig, &[]);
    let mut chromium = Chromium::open(&url(&server, ""), WIDE);
    chromium.wait_for_text("#state", "Loading");
    chromium.wait_for_text("#blank", "Waiting for the first complete table");
    chromium.wait_for("!document.querySelector('#problems').hidden");
    assert_eq!(chromium.text("#generation"), "–");
    chromium.screenshot("loading-1440-light");
    chromium.resize(Window(360, 740, "dark"));
    chromium.screenshot("loading-360-dark");
    standin.set_behavior(Behavior::Normal);
    chromium.wait_for_text("#state", "Ready");
    chromium.wait_for_text("#map", "db.prod");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn page_of_a_cluster_without_services_is_empty() {
    let server = serve(objects(), &[]);
    let mut chromium = open(&server, "", DARK);
    chromium.wait_for_text("#blank", "No services yet");
    chromium.screenshot("empty-1440-dark");
    server.rewrite(&list(db("east", "192.0.2.1")));
    chromium.wait_for_text("#map", "db.prod");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn expired_table_is_reported_in_words() {
    let flags = ["--watch-timeout=1s", "--max-stale=4s"];
    let server = serve(db("east", "192.0.2.1"), &flags);
    let mut chromium = open(&server, "", WIDE);
    server.write_invalid("just words\n");
    chromium.wait_for_text("#state", "Expired");
    chromium.wait_for_text("#problems", "--max-stale");
    chromium.screenshot("expired-1440-light");
    server.rewrite(&list(db("east", "192.0.2.1")));
    chromium.wait_for_text("#state", "Ready");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn table_of_a_snapshot_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.json");
    let flags = ["--snapshot", file.to_str().unwrap()];
    let standin = StandIn::start(Behavior::Normal, &db("east", "192.0.2.1").writes()).unwrap();
    let first = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    wait_for("a snapshot", || {
        fs::read_to_string(&file)
            .ok()
            .filter(|text| text.contains("192.0.2.1"))
    });
    drop(first);
    standin.set_behavior(Behavior::InternalErrors);
    let second = Server::of_cluster(&standin.kubeconfig, &flags);
    let mut chromium = Chromium::open(&url(&second, ""), WIDE);
    chromium.wait_for_text("#state", "Stale");
    chromium.wait_for_text("#problems", "snapshot");
    chromium.wait_for_text("#map", "db.prod");
    chromium.screenshot("stale-1440-light");
    chromium.assert_no_complaint();
}

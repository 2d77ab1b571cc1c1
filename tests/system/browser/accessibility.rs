//! The findings of axe in every view. `tests/run browser` installs axe; it is not part of this repository.

use std::fs;

use support::objects::objects;
use support::server::Server;

use crate::browser::chromium::{Chromium, PHONE, WIDE, Window};
use crate::browser::time::server_with_past;
use crate::browser::{demo, open, url};

/// The file `axe.min.js`.
const AXE: &str = "GLOBAL_DNS_TEST_AXE";

/// Fails if axe finds something in the current view.
fn assert_accessible(chromium: &mut Chromium, view: &str) {
    let path = std::env::var(AXE).expect("tests/run browser sets GLOBAL_DNS_TEST_AXE");
    chromium.evaluate(&fs::read_to_string(path).unwrap());
    let found = chromium.evaluate(
        "axe.run(document, {resultTypes: ['violations', 'incomplete']}).then(({violations, passes}) => [passes.length, \
         violations.map(({id, help, nodes}) => [id, help, nodes.map((node) => node.html + ' ' + node.failureSummary)])])",
    );
    let passed = found[0].as_u64().unwrap();
    assert!(passed > 20, "{view}: axe checked only {passed} rules");
    assert_eq!(found[1], serde_json::json!([]), "{view}: {:#}", found[1]);
    println!("{view}: {passed} rules pass");
}

#[test]
fn axe_finds_nothing_on_a_past_moment_and_the_time_bar() {
    let (server, times) = server_with_past();
    for (width, height) in [(1280, 800), (390, 844)] {
        for scheme in ["light", "dark"] {
            let window = Window(width, height, scheme);
            for (view, place) in [("past", ""), ("past-answer", "name=db.prod.global&")] {
                let route = format!("#/?{place}span=15m&at={}", times[1]);
                let mut chromium = Chromium::open(&url(&server, &route), window);
                chromium.wait_for_text("#sentence", "1 service fails");
                chromium.wait_for("document.querySelector('.t-failing').getAttribute('d')");
                assert_accessible(&mut chromium, &format!("{window:?} {view}"));
                chromium.screenshot(&format!("time-{view}-{width}-{scheme}"));
            }
        }
    }
}

#[test]
fn axe_finds_nothing() {
    let server = demo();
    for window in [
        WIDE,
        Window(1440, 900, "dark"),
        PHONE,
        Window(360, 740, "dark"),
    ] {
        for (route, expected) in [
            ("", "#map tbody a"),
            ("#/problems", "#problem-list .group"),
            ("#/changes", "#change-list li"),
            ("#/?open=gateway-down/west", "#attention .affected li"),
            ("#/?q=no+such+service", "#blank button"),
            ("#/?name=db.prod.global", "#explanation .endpoints"),
            ("#/?name=nope.prod.global", "#explanation .badge"),
        ] {
            let mut chromium = open(&server, route, window);
            chromium.wait_for(&format!("document.querySelector('{expected}')"));
            assert_accessible(&mut chromium, &format!("{window:?} {route}"));
        }
    }
    let server = Server::with_text(&objects().list(), &["--cluster-name=hub"]);
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#blank", "No services yet");
    assert_accessible(&mut chromium, "empty");
    drop(server);
    chromium.wait_for_text("#sentence", "Disconnected");
    assert_accessible(&mut chromium, "disconnected");
}

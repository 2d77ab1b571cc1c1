//! The time bar: an earlier moment by pointer, by keyboard and by a link, and the way back to now.

use std::thread::sleep;
use std::time::Duration;

use support::objects::{Gateway, Manifest, mirror, objects};
use support::server::Server;
use support::wait::wait_for;

use crate::chromium::{Chromium, PHONE, WIDE, Window};
use crate::{open, url};

/// Number of addresses that the service has had.
const ADDRESSES: u8 = 4;

/// A service whose only endpoint has a number in its address. With number 2, it is down.
fn numbered(number: u8) -> Manifest {
    let address = format!("10.96.1.{number}");
    let gateway = if number == 2 {
        Gateway::Down
    } else {
        Gateway::Up
    };
    let east = mirror("prod", "db", "east").endpoint_behind(gateway, "db-0", &[&address]);
    let web = mirror("shop", "web", "west").endpoint("web-0", &["10.96.2.1"]);
    objects().with(east).with(web)
}

/// Starts a server whose service changes, and returns a time at which each address was answered.
fn server_with_past() -> (Server, Vec<String>) {
    let server = Server::with_objects(numbered(1), &["--cluster-name=hub"]);
    let mut times = Vec::new();
    for number in 1..=ADDRESSES {
        std::fs::write(&server.file, numbered(number).text()).unwrap();
        let address = format!("10.96.1.{number}");
        wait_for("the answer", || {
            let explained = server.api("/api/v1/explain?name=db.prod.global");
            explained.to_string().contains(&address).then_some(())
        });
        // Longer than a step of the history.
        sleep(Duration::from_millis(1200));
        times.push(format!("{:.3}", jiff::Timestamp::now()));
        sleep(Duration::from_millis(300));
    }
    (server, times)
}

fn value_text(chromium: &mut Chromium) -> String {
    let text = chromium.evaluate("track.ariaValueText");
    text.as_str().unwrap().to_owned()
}

fn assert_past(chromium: &mut Chromium, number: usize) {
    chromium.wait_for_text("#explanation", &format!("10.96.1.{number}"));
    chromium.wait_for("!past.hidden && document.body.dataset.link === 'past'");
    assert!(value_text(chromium).contains(':'));
}

#[test]
#[ignore = "needs Chromium"]
fn link_with_a_time_shows_map_and_answer_of_that_time() {
    let (server, times) = server_with_past();
    let at = |number: usize| format!("#/?name=db.prod.global&at={}", times[number - 1]);
    let mut chromium = Chromium::open(&url(&server, &at(2)), WIDE);
    assert_past(&mut chromium, 2);
    assert_eq!(chromium.text("#sentence"), "1 service fails");
    assert!(chromium.text("#past").contains("not now."));
    assert_eq!(chromium.text("#link"), "Past");
    chromium.wait_for("document.querySelector('.t-failing').getAttribute('d')");
    chromium.screenshot("time-past-1440-light");
    // Nothing of the future: no event after that time, and durations until it.
    let text = chromium.text("#explanation");
    assert!(!text.contains("10.96.1.3"), "{text}");
    chromium.resize(Window(1440, 900, "dark"));
    chromium.screenshot("time-past-1440-dark");
    chromium.click("back");
    chromium.wait_for("document.body.dataset.link === 'live' && past.hidden");
    chromium.wait_for_text("#explanation", &format!("10.96.1.{ADDRESSES}"));
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    assert_eq!(value_text(&mut chromium), "now");
    assert_eq!(chromium.evaluate("location.hash"), "#/?name=db.prod.global");
    chromium.screenshot("time-now-1440-dark");
    chromium.resize(PHONE);
    chromium.screenshot("time-now-360-light");
    chromium.evaluate(&format!("location.hash = '{}'", at(2)));
    assert_past(&mut chromium, 2);
    chromium.screenshot("time-past-answer-360-light");
    chromium.evaluate("document.querySelector('#close').click()");
    chromium.wait_for("answer.hidden");
    chromium.screenshot("time-past-360-light");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn keys_step_through_the_changes_of_the_selected_service() {
    let (server, _) = server_with_past();
    let mut chromium = open(&server, "#/?name=db.prod.global&span=15m", WIDE);
    chromium.wait_for("document.querySelector('.t-changes').getAttribute('d')");
    chromium.evaluate("track.focus()");
    chromium.press("PageDown");
    assert_past(&mut chromium, 4);
    chromium.press("PageDown");
    assert_past(&mut chromium, 3);
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    chromium.press("End");
    chromium.wait_for("past.hidden && document.body.dataset.link === 'live'");
    assert_eq!(value_text(&mut chromium), "now");
    // The history begins with the process.
    chromium.press("Home");
    chromium.wait_for_text("#sentence", "No answers yet");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn time_before_the_history_says_so() {
    let (server, _) = server_with_past();
    let route = "#/?name=db.prod.global&at=2020-01-01T00:00:00Z";
    let mut chromium = Chromium::open(&url(&server, route), WIDE);
    chromium.wait_for_text("#sentence", "The history begins at");
    chromium.wait_for_text("#explanation", "the history begins at");
    chromium.click("back");
    chromium.wait_for_text("#sentence", "All names are answered");
}

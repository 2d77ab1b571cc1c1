//! The time bar: an earlier moment by pointer, by keyboard and by a link, and the way back to now.

use std::thread::sleep;
use std::time::Duration;

use support::objects::{Gateway, Manifest, mirror, objects};
use support::server::Server;
use support::wait::wait_for;

use crate::browser::chromium::{Chromium, WIDE};
use crate::browser::url;

/// Number of addresses that the service has had.
const ADDRESSES: u8 = 3;

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
pub fn server_with_past() -> (Server, Vec<String>) {
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

/// Waits until the answer of the page has the address with a number. Its history names earlier addresses, too.
fn wait_for_answer(chromium: &mut Chromium, number: u8) {
    chromium.wait_for(&format!("{ANSWERED} === '10.96.1.{number}'"));
}

/// The address in the answer of the page.
const ANSWERED: &str = r"/A 1 record, TTL[^]*?(10\.96\.1\.\d)/.exec(explanation.innerText)?.[1]";

fn assert_past(chromium: &mut Chromium, number: u8) {
    wait_for_answer(chromium, number);
    chromium.wait_for("!past.hidden && document.body.dataset.link === 'past'");
}

#[test]
fn link_pointer_and_keys_show_map_and_answer_of_an_earlier_time() {
    let (server, times) = server_with_past();
    let now = "#/?name=db.prod.global";
    let mut chromium = Chromium::open(&url(&server, &format!("{now}&at={}", times[1])), WIDE);
    assert_past(&mut chromium, 2);
    assert_eq!(chromium.text("#sentence"), "1 service fails");
    assert!(chromium.text("#past").contains("not now."));
    assert_eq!(chromium.text("#link"), "Past");
    // No event after that time.
    let text = chromium.text("#explanation");
    assert!(!text.contains("10.96.1.3"), "{text}");
    go_back(&mut chromium);
    assert_eq!(chromium.evaluate("location.hash"), now);
    chromium.assert_no_complaint();

    chromium.evaluate(&format!("location.hash = '{now}&span=15m'"));
    chromium.wait_for("document.querySelector('.t-changes').getAttribute('d')");
    chromium.evaluate("track.focus()");
    for number in [3, 2] {
        chromium.press("PageDown");
        assert_past(&mut chromium, number);
    }
    chromium.press("End");
    chromium.wait_for("past.hidden && document.body.dataset.link === 'live'");
    chromium.assert_no_complaint();

    // The middle of the bar is a moment before the history, and becomes its start.
    chromium.click("track");
    chromium.wait_for_text("#sentence", "No answers yet");
    go_back(&mut chromium);

    chromium.evaluate(&format!("location.hash = '{now}&at=2020-01-01T00:00:00Z'"));
    chromium.wait_for_text("#sentence", "The history begins at");
    chromium.wait_for_text("#explanation", "the history begins at");
    go_back(&mut chromium);
}

/// Returns to now, with the button.
fn go_back(chromium: &mut Chromium) {
    chromium.click("back");
    chromium.wait_for("document.body.dataset.link === 'live' && past.hidden");
    wait_for_answer(chromium, ADDRESSES);
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    assert_eq!(chromium.evaluate("track.ariaValueText"), "now");
}

//! The time bar: an earlier moment by pointer, by keyboard and by a link, and the way back to now.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use support::objects::{Gateway, Manifest, mirror, objects};
use support::server::Server;
use support::wait::wait_for;

use crate::browser::chromium::{Chromium, PHONE, WIDE, Window};
use crate::browser::{open, url};

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

fn value_text(chromium: &mut Chromium) -> String {
    let text = chromium.evaluate("track.ariaValueText");
    text.as_str().unwrap().to_owned()
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
    assert!(value_text(chromium).contains(':'));
}

#[test]
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
    wait_for_answer(&mut chromium, ADDRESSES);
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

/// The place of a moment on the bar, in pixels of the window.
fn place(chromium: &mut Chromium, time: &str) -> (f64, f64) {
    let place = chromium.evaluate(&format!(
        "(() => {{ const box = track.getBoundingClientRect(); const age = (Date.now() - Date.parse('{time}')) / 900000; \
         return [box.right - Math.min(1, age) * box.width, box.y + box.height / 2]; }})()"
    ));
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

/// Drags the pressed button until the address names a moment. Time goes on, so the place of a moment moves.
fn drag_to(chromium: &mut Chromium, time: &str) {
    let condition = format!(
        "location.hash.includes({})",
        json!(time.replace(':', "%3A"))
    );
    wait_for("the moment in the address", || {
        let (x, y) = place(chromium, time);
        chromium.mouse("mouseMoved", x, y);
        (chromium.evaluate(&condition) == true).then_some(())
    });
}

#[test]
fn dragging_shows_the_moments_under_the_pointer_with_few_requests() {
    let (server, times) = server_with_past();
    let history = server.api("/api/v1/history?name=db.prod.global");
    let changes = history["changes"].as_array().unwrap();
    let changes = changes
        .iter()
        .map(|change| change["time"].as_str().unwrap());
    let change = |number: usize| {
        let seconds = |time: &str| time.parse::<jiff::Timestamp>().unwrap();
        let at = seconds(&times[number - 1]);
        changes.clone().rfind(|time| seconds(time) < at).unwrap()
    };
    let mut chromium = open(&server, "#/?name=db.prod.global&span=15m", WIDE);
    chromium.wait_for("document.querySelector('.t-changes').getAttribute('d')");
    // A moment before the history becomes its start.
    let (x, y) = place(&mut chromium, "2020-01-01T00:00:00Z");
    chromium.mouse("mousePressed", x, y);
    chromium.wait_for_text("#sentence", "No answers yet");
    drag_to(&mut chromium, change(2));
    assert_past(&mut chromium, 2);
    assert_eq!(chromium.text("#sentence"), "1 service fails");
    drag_to(&mut chromium, change(3));
    assert_past(&mut chromium, 3);
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    chromium.record_responses();
    let base = url(&server, "api/v1/");
    let start = Instant::now();
    for step in 0..100 {
        let (end, _) = place(&mut chromium, change(2));
        let x = x + (end - x) * f64::from(step % 20) / 20.0;
        chromium.mouse("mouseMoved", x, y);
        chromium.evaluate("new Promise(requestAnimationFrame).then(() => true)");
    }
    drag_to(&mut chromium, change(2));
    let (x, y) = place(&mut chromium, change(2));
    chromium.mouse("mouseReleased", x, y);
    let responses = chromium.responses(&base);
    let summaries = responses
        .iter()
        .filter(|(path, _)| path.starts_with("summary"));
    let most = 2 * start.elapsed().as_secs() as usize + 3;
    assert!((1..=most).contains(&summaries.count()), "{responses:?}");
    assert!(responses.len() <= 3 * most, "{responses:?}");
    assert_past(&mut chromium, 2);
    chromium.click("back");
    chromium.wait_for("document.body.dataset.link === 'live' && past.hidden");
    wait_for_answer(&mut chromium, ADDRESSES);
    // The pointer without a pressed button changes nothing.
    chromium.call(
        "Input.dispatchMouseEvent",
        json!({"type": "mouseMoved", "x": x, "y": y}),
    );
    assert_eq!(value_text(&mut chromium), "now");
    // Before the first table, there is no answer to explain.
    let complaints = chromium.complaints();
    let is_early = |one: &String| one.contains("explain") && one.contains("network");
    assert!(complaints.iter().all(is_early), "{complaints:?}");
}

/// The reader goes back to now and to the past again before the moment before is shown.
#[test]
fn quick_return_to_the_past_shows_no_changes_of_now() {
    let (server, times) = server_with_past();
    let at = |number: usize| format!("#/?name=db.prod.global&at={}", times[number - 1]);
    let mut chromium = Chromium::open(&url(&server, &at(3)), WIDE);
    assert_past(&mut chromium, 3);
    let hop = format!(
        "location.hash = '#/?name=db.prod.global'; setTimeout(() => location.hash = '{}')",
        at(2)
    );
    chromium.evaluate(&hop);
    assert_past(&mut chromium, 2);
    std::fs::write(&server.file, numbered(9).text()).unwrap();
    wait_for("the answer", || {
        let explained = server.api("/api/v1/explain?name=db.prod.global");
        explained.to_string().contains("10.96.1.9").then_some(())
    });
    chromium.wait_for("document.body.dataset.link === 'past'");
    assert_eq!(chromium.text("#sentence"), "1 service fails");
    chromium.click("back");
    wait_for_answer(&mut chromium, 9);
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    // A time that cannot be shown, and back.
    chromium.evaluate("location.hash = '#/?at=2020-01-01T00:00:00Z'");
    chromium.wait_for_text("#sentence", "The history begins at");
    chromium.click("back");
    chromium.wait_for_text("#sentence", "All names are answered");
    chromium.wait_for("document.body.dataset.link === 'live'");
}

/// Makes the page wait before each request, in milliseconds by a part of its path, and note what it asks for. Also notes what the
/// page shows as an answer of the past: the sentence and the address.
const SLOW: &str = r"(() => {
    window.delays = []; window.asked = []; window.seen = new Set();
    const real = window.fetch;
    window.fetch = async (path, options) => {
        asked.push(path);
        const [, time] = delays.find(([part]) => path.includes(part)) ?? ['', 0];
        await new Promise((resolve) => setTimeout(resolve, time));
        return real(path, options);
    };
    const look = () => past.hidden || seen.add(`${sentence.innerText}: ${ANSWERED}`);
    new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
})()";

/// An answer follows the summary of its moment: what the page has requested before is not shown, and what waits is not requested.
#[test]
fn answer_of_another_time_is_not_shown_while_the_summary_is_slow() {
    let (server, times) = server_with_past();
    let now = "#/?name=db.prod.global";
    let go_to_past = format!("seen.clear(); location.hash = '{now}&at={}'", times[1]);
    let change_to = |number: u8| {
        std::fs::write(&server.file, numbered(number).text()).unwrap();
        wait_for("the answer", || {
            let explained = server.api("/api/v1/explain?name=db.prod.global");
            let address = format!("10.96.1.{number}");
            explained.to_string().contains(&address).then_some(())
        });
    };
    let assert_not_seen = |chromium: &mut Chromium, forbidden: &str| {
        chromium.wait_for("sentence.innerText === '1 service fails'");
        assert_past(chromium, 2);
        let seen = chromium.evaluate("[...seen].sort()").to_string();
        assert!(seen.contains("1 service fails: 10.96.1.2"), "{seen}");
        assert!(!seen.contains(forbidden), "{seen}");
    };
    let mut chromium = open(&server, now, WIDE);
    wait_for_answer(&mut chromium, ADDRESSES);
    chromium.evaluate(&SLOW.replace("ANSWERED", ANSWERED));
    // A second change follows at once, so its answer is requested later: when the reader is in the past.
    change_to(9);
    wait_for_answer(&mut chromium, 9);
    chromium.evaluate("delays = [['summary?at=', 4000], ['explain?', 300]]; asked.length = 0");
    change_to(8);
    chromium.evaluate(&go_to_past);
    assert_not_seen(&mut chromium, "All names are answered: 10.96.1.2");
    // An answer of now is requested, and arrives when the reader is in the past.
    chromium.evaluate("delays = [['summary?at=', 4000], ['explain?', 2000]]; asked.length = 0");
    chromium.click("back");
    chromium.wait_for("asked.some((path) => path.includes('explain') && !path.includes('at='))");
    chromium.evaluate(&go_to_past);
    assert_not_seen(&mut chromium, "10.96.1.8");
    chromium.assert_no_complaint();
}

#[test]
fn hidden_page_of_a_past_moment_asks_nothing() {
    let (server, times) = server_with_past();
    let at = |number: usize| format!("#/?name=db.prod.global&at={}", times[number - 1]);
    let mut chromium = Chromium::open(&url(&server, &at(2)), WIDE);
    assert_past(&mut chromium, 2);
    chromium.record_responses();
    let base = url(&server, "api/v1/");
    chromium.hide();
    let before = chromium.settled_responses(&base);
    chromium.evaluate(&format!("location.hash = '{}'", at(3)));
    sleep(Duration::from_secs(2));
    assert_eq!(chromium.responses(&base).len(), before);
    chromium.unhide();
    assert_past(&mut chromium, 3);
    chromium.assert_no_complaint();
}

#[test]
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
    chromium.assert_no_complaint();
    // The history begins with the process. The console reports that there is no answer to explain.
    chromium.press("Home");
    chromium.wait_for_text("#sentence", "No answers yet");
}

#[test]
fn time_before_the_history_says_so() {
    let (server, _) = server_with_past();
    let route = "#/?name=db.prod.global&at=2020-01-01T00:00:00Z";
    let mut chromium = Chromium::open(&url(&server, route), WIDE);
    chromium.wait_for_text("#sentence", "The history begins at");
    chromium.wait_for_text("#explanation", "the history begins at");
    chromium.click("back");
    chromium.wait_for_text("#sentence", "All names are answered");
}

//! The findings of axe in every view, and parts that do not fit. `tests/run browser` installs axe; it is not part of this
//! repository.

use std::fs;

use crate::browser::chromium::{Chromium, PHONE, WIDE, Window};
use crate::browser::{demo, open};

/// The file `axe.min.js`.
const AXE: &str = "GLOBAL_DNS_TEST_AXE";

/// Windows of all widths, in both color schemes.
const WINDOWS: [Window; 4] = [
    WIDE,
    Window(1024, 768, "dark"),
    PHONE,
    Window(360, 740, "dark"),
];

/// The places, and a part of each.
const PLACES: [(&str, &str); 7] = [
    ("", "#map tbody a"),
    ("#show=changes", "#content *"),
    ("#open=gateway-down/west", "#causes .affected li"),
    ("#q=no+such+service", "#blank button"),
    ("#show=cluster&cluster=west", "#content .states"),
    ("#name=db.prod.global", "#content .verdict"),
    ("#name=nope.prod.global", "#content .verdict"),
];

/// Opens a view and waits for a visible part of it. Fails if axe finds something, or if the window must be scrolled sideways.
fn check(chromium: &mut Chromium, window: Window, place: &str, part: &str) {
    let Window(width, _, scheme) = window;
    chromium.resize(window);
    chromium.evaluate(&format!("location.hash = '{place}'"));
    let is_shown = format!("document.querySelector('{part}')?.checkVisibility()");
    chromium.wait_for(&is_shown);
    let place = place.replace(|c: char| !c.is_alphanumeric(), "-");
    let view = format!("view{place}-{width}-{scheme}");
    chromium.screenshot(&view);
    let path = std::env::var(AXE).expect("tests/run browser sets GLOBAL_DNS_TEST_AXE");
    chromium.evaluate(&fs::read_to_string(path).unwrap());
    let found = chromium.evaluate(
        "axe.run(document, {resultTypes: ['violations', 'incomplete']}).then(({violations, passes}) => [passes.length, \
         violations.map(({id, help, nodes}) => [id, help, nodes.map((node) => node.html + ' ' + node.failureSummary)])])",
    );
    let passed = found[0].as_u64().unwrap();
    assert!(passed > 20, "{view}: axe checked only {passed} rules");
    assert_eq!(found[1], serde_json::json!([]), "{view}: {:#}", found[1]);
    let overflow = chromium.evaluate("document.documentElement.scrollWidth - innerWidth");
    assert!(overflow.as_i64().unwrap() <= 0, "{view}: {overflow}");
    println!("{view}: {passed} rules pass");
}

#[test]
fn axe_finds_nothing_and_every_view_fits() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    for window in WINDOWS {
        for (place, part) in PLACES {
            check(&mut chromium, window, place, part);
        }
    }
    chromium.assert_no_complaint();
    drop(server);
    chromium.wait_for_text("#sentence", "Disconnected");
    check(&mut chromium, WIDE, "", "#sentence");
}

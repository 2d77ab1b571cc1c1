//! The answer to a name, by mouse, by keyboard and by the search box, with the services of the demo.

use serde_json::json;
use support::commands::command;
use support::process::run_checked;

use crate::browser::chromium::{Chromium, WIDE};
use crate::browser::{SERVICES, demo, open};

/// The first thing that a newcomer does.
#[test]
fn every_row_of_the_demo_opens_an_answer_in_the_chosen_zone() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    for zone in ["global", "svc.clusterset.local"] {
        chromium.evaluate(&format!(
            "zone.value = '{zone}.'; zone.dispatchEvent(new Event('change'))"
        ));
        for (index, service) in SERVICES.iter().enumerate() {
            let row = format!("document.querySelectorAll('#map tbody tr')[{index}]");
            chromium.click(&format!("{row}.querySelector('.result')"));
            let name = format!("{service}.{zone}");
            chromium.wait_for_text("#title", &name);
            chromium.wait_for(&format!("location.hash.includes('name={name}')"));
            chromium.wait_for_text(
                "#content .verdict",
                &format!(
                    "dig @127.0.0.1 -p {} +noall +answer {name}. A",
                    server.dns.port()
                ),
            );
            // The table shows which service the name belongs to.
            chromium.wait_for(&format!("{row}.querySelector('[aria-current]')"));
        }
    }
    chromium.assert_no_complaint();
}

#[test]
fn answer_lists_problems_records_and_what_is_not_returned() {
    let server = demo();
    let mut chromium = open(&server, "#name=db.prod.global", WIDE);
    chromium.wait_for_text("#content", "Not returned");
    let text = chromium.evaluate("content.textContent");
    let text = text.as_str().unwrap();
    for expected in [
        "Mirror of a service in another namespace (warning)",
        "What to do: find out who wrote the annotation",
        "More: global-dns explain --kind namespace-mismatch",
        "NOERROR Service 'db' in namespace 'prod': 5 of 6 endpoints",
        "TTL 5 s · http 8080, sql 26257",
        "A 5 records · TTL 5 s",
        "10.96.10.1 db-0 · east Service/prod/db-0-east",
        "SRV 10 records · TTL 5 s",
        "0 10 26257 db-0.east.db.prod.global",
        "Its pod is not ready (1)",
        "192.0.2.12 db-2 · hub not ready",
        "EndpointSlice/prod/db-x7k2p",
    ] {
        assert!(text.contains(expected), "{expected} in:\n{text}");
    }
    // The target of an SRV record leads to its answer.
    chromium.evaluate(
        "[...document.querySelectorAll('#content a')].find((a) => a.textContent.startsWith('db-0.east')).click()",
    );
    chromium.wait_for_text("#title", "db-0.east.db.prod.global");
    chromium.wait_for_text("#content", "endpoint 'db-0'");
    chromium.evaluate("location.hash = 'name=cache.prod.global'");
    chromium.wait_for_text(
        "#content .verdict",
        "NOERROR no returned endpoint is alive ",
    );
    chromium.assert_no_complaint();
}

/// Submits a name in the search box.
fn ask(chromium: &mut Chromium, name: &str) {
    let name = json!(name);
    chromium.evaluate(&format!("search.value = {name}; search.focus()"));
    chromium.press("Enter");
}

#[test]
fn search_box_explains_any_name() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    for (name, title, expected) in [
        ("pay.shop.global", "pay.shop.global", "NOERROR"),
        ("dbs.prod.global", "dbs.prod.global", "Nearest names"),
        ("prod.global", "prod.global", "NODATA"),
        // A service is named in the zone that the page shows.
        ("db.prod", "db.prod.global", "10.96.10.1"),
        // An address is explained by the name of its endpoint.
        ("10.96.10.1", "10.96.10.1", "Service/prod/db-0-east"),
        ("www.example.org", "www.example.org", "REFUSED"),
    ] {
        ask(&mut chromium, name);
        let shown = "document.querySelector('#title').textContent";
        chromium.wait_for(&format!("{shown} === '{title}'"));
        chromium.wait_for_text("#content", expected);
    }
    chromium.assert_no_complaint();
    // The console reports the status 400 itself.
    ask(&mut chromium, "a..b");
    chromium.wait_for_text("#content", "it is not a domain name");
}

#[test]
fn command_is_one_line_whatever_the_name_contains() {
    let server = demo();
    let port = server.dns.port();
    let mut chromium = open(&server, "", WIDE);
    for name in [
        "-f;id.prod.global",
        "a$(id).prod.global",
        "a'|id|'b.prod.global",
        "a b`id`.prod.global",
    ] {
        ask(&mut chromium, name);
        let name = json!(name);
        // The name as the server writes it.
        let canonical = chromium.evaluate(&format!(
            "fetch('api/v1/explain?name=' + encodeURIComponent({name})).then((response) => response.json()).then(({{items}}) => items[0].name)"
        ));
        let canonical = canonical.as_str().unwrap();
        chromium.wait_for(&format!(
            "title.textContent === {name} && content.querySelector('.dig')?.textContent.includes(' -q ')"
        ));
        let line = chromium.text("#content .dig code");
        // A function takes the place of dig and prints its arguments.
        let script = format!("dig() {{ printf '%s|' \"$@\"; }}; {line}");
        let printed = run_checked(command("sh").args(["-c", &script])).unwrap();
        let expected = format!("@127.0.0.1|-p|{port}|-q|{canonical}|-t|A|");
        assert_eq!(printed, expected);
    }
}

#[test]
fn keyboard_opens_and_closes_an_answer() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    let focused = "document.activeElement.textContent";
    // The skip link is first. It leads to the first row.
    for (key, text) in [
        ("Tab", "Skip to the services"),
        ("Enter", SERVICES[0]),
        ("Tab", SERVICES[1]),
    ] {
        chromium.press(key);
        assert_eq!(chromium.evaluate(focused), text, "{key}");
    }
    chromium.press("Enter");
    chromium.wait_for("document.activeElement.id === 'title'");
    chromium.press("Escape");
    chromium.wait_for("aside.hidden");
    assert_eq!(chromium.evaluate(focused), SERVICES[1]);
    chromium.assert_no_complaint();
}

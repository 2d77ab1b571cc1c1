//! The map, its filters, and the explanation of a name, with mouse, keyboard and address bar.

use serde_json::json;
use support::commands::command;
use support::process::run_checked;
use support::repository::repository;
use support::server::Server;

use crate::chromium::{Chromium, PHONE, WIDE, Window};
use crate::{demo, open, url};

/// An expression that returns the text of the cell of a service and a cluster.
fn cell(service: &str, cluster: &str) -> String {
    format!(
        "(() => {{ const at = [...document.querySelectorAll('#map thead th')].findIndex((th) => \
         th.firstChild.textContent === '{cluster}'); const row = [...document.querySelectorAll('#map tbody tr')].find((tr) => \
         tr.querySelector('a')?.textContent === '{service}'); return row?.children[at]?.textContent; }})()"
    )
}

fn shown_services(chromium: &mut Chromium) -> Vec<String> {
    let links = chromium
        .evaluate("[...document.querySelectorAll('#map tbody a')].map((a) => a.textContent)");
    links
        .as_array()
        .unwrap()
        .iter()
        .map(|link| link.as_str().unwrap().to_owned())
        .collect()
}

/// Chooses an option of a filter, or sets the text of the search.
fn filter(chromium: &mut Chromium, id: &str, value: &str) {
    chromium.evaluate(&format!(
        "(() => {{ const input = document.getElementById('{id}'); input.value = '{value}'; \
         input.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    ));
}

#[test]
#[ignore = "needs Chromium"]
fn first_glance_and_map_show_status_and_endpoints() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    assert_eq!(chromium.text("#cluster"), "hub");
    assert_eq!(chromium.text("#zones"), "global. clusterset.local.");
    let (generation, _) = server.generation_and_serial();
    assert_eq!(chromium.text("#generation"), generation.to_string());
    for (service, cluster, expected) in [
        ("db.prod", "hub", "2/3 2 alive, 1 not ready"),
        ("db.prod", "east", "2/2 2 alive"),
        ("cache.prod", "west", "0/1 1 last resort"),
        ("pay.shop", "hub", "1/1 1 alive"),
        ("web.shop", "shared", "1/1 1 alive"),
        ("web.shop", "east", "no endpoint"),
    ] {
        let found = chromium.evaluate(&cell(service, cluster));
        assert_eq!(found, expected, "{service} in {cluster}");
    }
    assert_eq!(chromium.evaluate("document.title"), "(2) hub – global-dns");
    // The rate appears after two samples.
    for _ in 0..20 {
        assert_eq!(server.outcome("db-0.west.db.prod.global. A"), "10.96.20.1");
    }
    chromium.wait_for("document.querySelector('#spark .line').getAttribute('d')?.length > 3");
    chromium.wait_for("Number(document.querySelector('#rate').textContent) >= 0");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn filters_and_search_select_rows() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    let all = shown_services(&mut chromium);
    assert!(all.len() >= 6, "{all:?}");
    for (id, value, expected) in [
        ("search", "DB", &["db.prod", "db-east.shop"][..]),
        ("search", "pa op", &["pay.shop"]),
        ("by-kind", "federated", &["web.shop"]),
        ("by-state", "last-resort", &["cache.prod"]),
        ("by-state", "trouble", &["cache.prod", "db.prod"]),
        ("by-namespace", "prod", &["cache.prod", "db.prod"]),
    ] {
        filter(&mut chromium, id, value);
        assert_eq!(shown_services(&mut chromium), expected, "{id} {value}");
        let rows = chromium
            .evaluate("Number(document.querySelector('#map').getAttribute('aria-rowcount'))");
        assert_eq!(rows, expected.len() + 1);
        filter(&mut chromium, id, "");
    }
    filter(&mut chromium, "search", "nothing has this name");
    chromium.wait_for_text("#blank", "No service matches");
    chromium.evaluate("document.querySelector('#blank button').click()");
    assert_eq!(shown_services(&mut chromium), all);
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn row_opens_the_explanation_and_the_address_names_it() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    // A click on the cell of a cluster opens the row.
    chromium.evaluate("[...document.querySelectorAll('#map tbody tr')].find((tr) => tr.innerText.startsWith('db.prod')).lastChild.click()");
    chromium.wait_for("location.hash === '#/name/db.prod.global'");
    chromium.wait_for_text("#explanation", "Returned endpoints");
}

/// Clicks on each row, and expects an answer to the name that it opens.
fn assert_rows_open_answers(chromium: &mut Chromium, suffix: &str) {
    chromium.wait_for_text("#map", "db.prod");
    let services = shown_services(chromium);
    assert_eq!(services.len(), 7, "{services:?}");
    for (index, service) in services.iter().enumerate() {
        let row = format!("document.querySelectorAll('#map tbody tr:not(.space)')[{index}]");
        chromium.click(&format!("{row}.firstChild"));
        chromium.wait_for_text("#name-title", &format!("{service}.{suffix}"));
        chromium.wait_for("document.querySelector('#explanation .result')");
        let result = chromium.text("#explanation .result");
        assert_eq!(result, "NOERROR", "{service}.{suffix}");
        // The map shows which service the name belongs to.
        chromium.wait_for(&format!("{row}.querySelector('[aria-current]')"));
    }
    chromium.assert_no_complaint();
}

/// The first thing that a newcomer does.
#[test]
#[ignore = "needs Chromium"]
fn every_row_of_the_demo_opens_an_answer_in_the_first_zone() {
    let server = demo();
    assert_rows_open_answers(&mut open(&server, "", WIDE), "global");
    let text = std::fs::read_to_string(repository("src/demo.yaml")).unwrap();
    let zones = "--zone=clusterset.local=mcs,global";
    let server = Server::with_text(&text, &["--cluster-name=hub", "--mcs", zones]);
    assert_rows_open_answers(&mut open(&server, "", WIDE), "svc.clusterset.local");
}

#[test]
#[ignore = "needs Chromium"]
fn explanation_lists_answers_endpoints_and_what_is_left_out() {
    let server = demo();
    let mut chromium = open(&server, "#/name/db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "Returned endpoints");
    assert_eq!(chromium.text("#name-title"), "db.prod.global");
    let text = chromium.text("#explanation");
    for expected in [
        "NOERROR",
        "headless",
        "dig +noall +answer db.prod.global. A",
        "TTL 5 s",
        "10.96.10.1",
        "0 10 26257 db-0.east.db.prod.global",
        "http 8080, sql 26257",
        "Service/prod/db-0-east",
        "Left out",
        "192.0.2.12 not ready",
        "The pod is not ready.",
        "Service/prod/db-9-east",
        "namespace-mismatch",
    ] {
        assert!(text.contains(expected), "{expected} in:\n{text}");
    }
    // The target of an SRV record leads to its explanation.
    chromium.evaluate("[...document.querySelectorAll('#explanation a')].find((a) => a.textContent.startsWith('db-0.east')).click()");
    chromium.wait_for_text("#name-title", "db-0.east.db.prod.global");
    chromium.wait_for_text("#explanation", "endpoint 'db-0' of cluster 'east'");
    chromium.evaluate("history.back()");
    chromium.wait_for("document.querySelector('#name-title').innerText === 'db.prod.global'");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn failover_step_and_awaited_clusters_are_shown_if_there_are_any() {
    let server = demo();
    let mut table = server.api("/api/v1/table");
    let services = table["services"].as_array_mut().unwrap();
    let db = services
        .iter_mut()
        .find(|service| service["service"] == "db")
        .unwrap();
    db["awaited"] = json!(["north"]);
    db["failover"] = json!({"order": "east:*", "origin": "annotation", "mode": "auto", "step": 1,
        "steps": [{"clusters": "east", "state": "alive"}, {"clusters": "*", "state": "dead"}]});
    for endpoint in db["endpoints"].as_array_mut().unwrap() {
        if endpoint["cluster"] != "east" {
            endpoint["state"] = json!("standby");
        }
    }
    let mut chromium = Chromium::start();
    chromium.resize(WIDE);
    let table = table.to_string();
    chromium.substitute(Box::new(move |path| {
        (path == "table").then(|| (table.clone(), "application/json"))
    }));
    chromium.go(&url(&server, ""));
    chromium.wait_for_text("#map", "step 1 of 2");
    for (cluster, expected) in [
        ("east", "2/2 2 alive"),
        ("west", "1/1 1 standby"),
        ("north", " 1 awaited"),
    ] {
        assert_eq!(chromium.evaluate(&cell("db.prod", cluster)), expected);
    }
    chromium.screenshot("failover-1440-light");
    chromium.go(&url(&server, "#/name/db.prod.global"));
    chromium.wait_for_text("#explanation .steps .now", "east (alive)");
    chromium.wait_for_text("#explanation .steps", "all others (dead)");
    chromium.assert_no_complaint();
}

/// Submits a name to the ask box.
fn ask(chromium: &mut Chromium, name: &str) {
    chromium.evaluate("document.getElementById('question').value = ''; document.getElementById('question').focus()");
    chromium.type_text(name);
    chromium.press("Enter");
}

#[test]
#[ignore = "needs Chromium"]
fn ask_box_explains_any_name() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    for (name, expected) in [
        ("pay.shop.global", &["NOERROR", "gateway"][..]),
        ("nope.prod.global", &["NXDOMAIN", "which does not exist."]),
        (
            "dbs.prod.global",
            &["NXDOMAIN", "Nearest names", "db.prod.global"],
        ),
        ("prod.global", &["NODATA", "empty non-terminal"]),
        // The server adds the zone to a service.
        ("db.prod", &["NOERROR", "db.prod.global"]),
        ("www.example.org", &["REFUSED"]),
        ("global", &["The apex of zone global."]),
    ] {
        ask(&mut chromium, name);
        for text in expected {
            chromium.wait_for_text("#explanation", text);
        }
        assert_eq!(chromium.evaluate("location.hash"), format!("#/name/{name}"));
    }
    chromium.screenshot("refused-1440-light");
    chromium.assert_no_complaint();
    // The console reports the status 400 itself.
    ask(&mut chromium, "a..b");
    chromium.wait_for_text("#explanation", "'a..b' is not a domain name");
    assert!(
        chromium
            .complaints()
            .iter()
            .all(|complaint| complaint.contains("400"))
    );
}

#[test]
#[ignore = "needs Chromium"]
fn copied_line_is_one_command_whatever_the_name_contains() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    for name in [
        "-f;id.prod.global",
        "a$(id).prod.global",
        "a'|id|'b.prod.global",
        "a b`id`.prod.global",
    ] {
        ask(&mut chromium, name);
        let name = json!(name);
        chromium.wait_for(&format!(
            "document.querySelector('#name-title').textContent === {name}"
        ));
        chromium.wait_for("document.querySelector('#explanation .copy')");
        let line = chromium.text("#explanation .copy code");
        // The name as the server writes it.
        let canonical = chromium.evaluate(&format!(
            "fetch('api/v1/explain?name=' + encodeURIComponent({name})).then((response) => response.json()).then(({{name}}) => name)"
        ));
        // A function takes the place of dig and prints its arguments.
        let script = format!("dig() {{ printf '%s|' \"$@\"; }}; {line}");
        let printed = run_checked(command("sh").args(["-c", &script])).unwrap();
        let canonical = canonical.as_str().unwrap();
        assert_eq!(printed, format!("+noall|+answer|-q|{canonical}|-t|A|"));
    }
    chromium.evaluate("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})");
    chromium.evaluate("document.querySelector('#explanation .copy button').click()");
    chromium.wait_for_text("#explanation .copy button", "Copied");
    let line = chromium.text("#explanation .copy code");
    assert_eq!(chromium.evaluate("window.copied"), line);
}

#[test]
#[ignore = "needs Chromium"]
fn keyboard_reaches_everything() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    let services = shown_services(&mut chromium);
    let focused = "document.activeElement.textContent";
    // The skip link is first. It leads to the first row.
    chromium.press("Tab");
    assert_eq!(chromium.evaluate(focused), "Skip to the services");
    chromium.press("Enter");
    assert_eq!(chromium.evaluate(focused), services[0]);
    for (key, index) in [
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("End", services.len() - 1),
        ("Home", 0),
    ] {
        chromium.press(key);
        assert_eq!(chromium.evaluate(focused), services[index], "{key}");
    }
    chromium.press("ArrowDown");
    chromium.press("Enter");
    chromium.wait_for_text("#explanation", "Answers");
    chromium.wait_for("document.activeElement.id === 'name-title'");
    chromium.press("Escape");
    chromium.wait_for("document.querySelector('#name').hidden");
    assert_eq!(chromium.evaluate(focused), services[1]);
    assert_eq!(chromium.evaluate("location.hash"), "#/");
    chromium.assert_no_complaint();
}

#[test]
#[ignore = "needs Chromium"]
fn every_width_and_color_scheme_fits() {
    let server = demo();
    for Window(width, height, scheme) in [
        WIDE,
        Window(1440, 900, "dark"),
        Window(1024, 768, "light"),
        Window(1024, 768, "dark"),
        PHONE,
        Window(360, 740, "dark"),
    ] {
        for (route, name) in [
            ("", "services"),
            ("#/name/db.prod.global", "name"),
            ("#/events", "events"),
        ] {
            let mut chromium = open(&server, route, Window(width, height, scheme));
            let part = if route.contains("name") {
                "#explanation"
            } else {
                "main"
            };
            chromium.wait_for(&format!(
                "document.querySelector('{part}').innerText.length > 40"
            ));
            chromium.wait_for("document.querySelector('#map tbody a')");
            let overflow = chromium.evaluate("document.documentElement.scrollWidth - innerWidth");
            assert!(
                overflow.as_i64().unwrap() <= 0,
                "{name} at {width}: {overflow}"
            );
            chromium.screenshot(&format!("{name}-{width}-{scheme}"));
            chromium.assert_no_complaint();
        }
    }
    assert!(url(&server, "").starts_with("http://127.0.0.1:"));
}

//! The first glance, the map, its filters, problems, and the answer to a name, with mouse, keyboard and address bar.

use serde_json::json;
use support::commands::command;
use support::objects::mirror;
use support::process::run_checked;
use support::repository::repository;
use support::server::Server;

use crate::browser::chromium::{Chromium, PHONE, WIDE, Window};
use crate::browser::{demo, open, url};

/// The services of the demo: those in trouble first, then in natural order.
const SERVICES: [&str; 6] = [
    "cache.prod",
    "api.shop",
    "db.prod",
    "db-east.shop",
    "pay.shop",
    "web.shop",
];

/// An expression that returns the cell of a service and a cluster.
fn cell(service: &str, cluster: &str) -> String {
    format!(
        "(() => {{ const at = [...document.querySelectorAll('#map thead th')].findIndex((th) => th.abbr === '{cluster}'); \
         const row = [...document.querySelectorAll('#map tbody tr')].find((tr) => \
         tr.querySelector('a')?.textContent === '{service}'); return row?.children[at]; }})()"
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

/// Chooses an option of a filter of services, or sets the text of the search.
fn filter(chromium: &mut Chromium, name: &str, value: &str) {
    let selector = match name {
        "q" => "#search".to_owned(),
        _ => format!("[data-for=services] [data-filter={name}]"),
    };
    chromium.evaluate(&format!(
        "(() => {{ const input = document.querySelector('{selector}'); input.value = '{value}'; \
         input.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    ));
}

fn hash(chromium: &mut Chromium) -> String {
    let hash = chromium.evaluate("location.hash");
    hash.as_str().unwrap().to_owned()
}

// === First glance ===

#[test]
fn first_glance_says_what_is_wrong_where_and_since_when() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    assert_eq!(chromium.text("#sentence"), "1 service fails");
    assert_eq!(chromium.evaluate("headline.className"), "failing");
    let place = chromium.text("#where");
    assert!(place.starts_with("west and 1 more since "), "{place}");
    assert_eq!(
        chromium.evaluate("document.title"),
        "1 service fails – hub – global-dns"
    );
    assert_eq!(chromium.text("#cluster"), "hub");
    let head = server.api("/api/v1/status");
    assert_eq!(chromium.text("#replica"), head["replica"].as_str().unwrap());
    assert_eq!(chromium.text("#by-zone"), "global.\nsvc.clusterset.local.");
    assert_eq!(chromium.text("#link"), "Live");
    chromium.wait_for(r"/^\d\d:\d\d:\d\d \S+$/.test(clock.innerText)");
    chromium.assert_no_complaint();
}

#[test]
fn first_glance_is_green_if_all_names_are_answered() {
    let db = mirror("prod", "db", "east").endpoint("db-0", &["192.0.2.1"]);
    let server = Server::with_objects(db, &["--cluster-name=hub", "--zone=global"]);
    let mut chromium = open(&server, "", WIDE);
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    assert_eq!(chromium.evaluate("headline.className"), "fine");
    // The own cluster has a column, too.
    assert_eq!(chromium.text("#where"), "1 service in 2 clusters");
    assert_eq!(chromium.evaluate("document.title"), "hub – global-dns");
    assert_eq!(chromium.text("#zone"), "global.");
    chromium.assert_no_complaint();
}

#[test]
fn line_of_a_cause_leads_to_what_it_affects_and_unfolds() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    let lines = "document.querySelectorAll('#attention .cause').length";
    assert_eq!(chromium.evaluate(lines), 2);
    let text = chromium.text("#attention");
    for expected in [
        "west Gateway is down: prod/cache since ",
        "cluster 'west': cache-0",
    ] {
        assert!(text.contains(expected), "{expected} in:\n{text}");
    }
    chromium.evaluate("document.querySelector('#attention .fold').click()");
    chromium.wait_for_text("#attention .unfolded", "What to do: check the gateway");
    chromium.wait_for("document.querySelector('#attention .affected li')");
    assert_eq!(hash(&mut chromium), "#/?open=gateway-down/west");
    chromium.screenshot("cause-1440-light");
    // The service is a link of its own, after the sentence.
    chromium.evaluate(
        "[...document.querySelectorAll('#attention .cause a')].find((link) => link.innerText === 'prod/cache').click()",
    );
    chromium.wait_for_text("#answer-title", "cache.prod.global");
    chromium.assert_no_complaint();
}

// === Map ===

#[test]
fn cells_say_how_many_endpoints_are_alive_and_why_others_are_not() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    for (service, cluster, number, expected) in [
        (
            "db.prod",
            "hub",
            "2/3",
            &["not ready since ", "; 2 of 3 endpoints alive, 2 returned"][..],
        ),
        (
            "db.prod",
            "east",
            "2/2",
            &["alive; 2 of 2 endpoints alive, 2 returned"],
        ),
        (
            "cache.prod",
            "west",
            "0/1",
            &["down since ", "; 0 of 1 endpoint alive, 1 returned"],
        ),
        (
            "pay.shop",
            "east",
            "1/1",
            &["standby; 1 of 1 endpoint alive, 0 returned"],
        ),
        (
            "web.shop",
            "shared",
            "1/1",
            &["alive; 1 of 1 endpoint alive, 1 returned"],
        ),
    ] {
        let cell = cell(service, cluster);
        assert_eq!(
            chromium.evaluate(&format!("{cell}.innerText.trim().split(/\\s/)[0]")),
            number
        );
        let tip = chromium.evaluate(&format!("{cell}.dataset.tip"));
        let tip = tip.as_str().unwrap();
        assert!(tip.starts_with(&format!("{cluster}: ")), "{tip}");
        for text in expected {
            assert!(tip.contains(text), "{service} in {cluster}: {tip}");
        }
        assert_eq!(
            chromium.evaluate(&format!("{cell}.textContent")),
            format!("{number} {}", &tip[cluster.len() + 2..])
        );
    }
    let blank = chromium.evaluate(&format!("{}.textContent", cell("web.shop", "east")));
    assert_eq!(blank, "no endpoint");
}

#[test]
fn rows_in_trouble_are_first_and_the_others_in_natural_order() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    assert_eq!(shown_services(&mut chromium), SERVICES);
}

#[test]
fn filters_select_rows_and_their_address_shows_the_same() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    for (name, value, expected) in [
        ("q", "DB", &["db.prod", "db-east.shop"][..]),
        ("q", "pa op", &["pay.shop"]),
        ("q", "pay.shop.global", &["pay.shop"]),
        ("kind", "federated", &["web.shop"]),
        ("state", "standby", &["pay.shop"]),
        ("state", "down", &["cache.prod"]),
        ("state", "failing", &["cache.prod"]),
        ("state", "attention", &[]),
        ("state", "trouble", &["cache.prod"]),
        ("namespace", "prod", &["cache.prod", "db.prod"]),
        ("cluster", "west", &["cache.prod", "db.prod", "pay.shop"]),
    ] {
        filter(&mut chromium, name, value);
        assert_eq!(shown_services(&mut chromium), expected, "{name} {value}");
        let count = format!("{} of {}", expected.len(), SERVICES.len());
        assert_eq!(chromium.text("#services-count"), count);
        let rows = "Number(document.querySelector('#map').getAttribute('aria-rowcount'))";
        assert_eq!(chromium.evaluate(rows), expected.len() + 1);
        let address = hash(&mut chromium);
        assert_eq!(address, format!("#/?{name}={}", value.replace(' ', "+")));
        chromium.go("about:blank");
        chromium.go(&url(&server, &address));
        chromium.wait_for(&format!(
            "document.querySelector('#services-count').innerText === '{count}'"
        ));
        assert_eq!(shown_services(&mut chromium), expected, "{address}");
        chromium.evaluate("clear.click()");
        // The address changes before the page follows it.
        chromium.wait_for("location.hash === '#/' && clear.hidden");
    }
    chromium.assert_no_complaint();
}

#[test]
fn search_without_a_match_offers_an_explanation_and_clears_the_filters() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    filter(&mut chromium, "q", "nothing");
    chromium.wait_for_text("#blank", "No service matches");
    chromium.wait_for_text("#blank button", "Explain nothing");
    chromium.evaluate("document.querySelector('#blank button:last-child').click()");
    assert_eq!(shown_services(&mut chromium), SERVICES);
    assert_eq!(hash(&mut chromium), "#/");
    chromium.assert_no_complaint();
}

#[test]
fn problems_are_filtered_by_the_address() {
    let server = demo();
    let mut chromium = open(&server, "#/problems", WIDE);
    let kinds = "document.querySelectorAll('#problem-list .group').length";
    chromium.wait_for(&format!("{kinds} === 3"));
    assert_eq!(chromium.text("#problems-count"), "3");
    for (filters, expected) in [
        ("level=note", "Pods are not ready (note)"),
        ("service=prod/cache", "Gateway is down (warning)"),
        ("level=note&service=prod/db", "Pods are not ready (note)"),
        ("cluster=west", "Gateway is down (warning)"),
        (
            "kind=namespace-mismatch",
            "Mirror of a service in another namespace (warning)",
        ),
    ] {
        chromium.evaluate(&format!("location.hash = '#/problems?{filters}'"));
        chromium.wait_for_text("#problem-list h3", expected);
        assert_eq!(chromium.evaluate(kinds), 1, "{filters}");
    }
    chromium.assert_no_complaint();
}

// === Answer ===

#[test]
fn row_opens_the_answer_and_the_address_names_it() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    // A click on the cell of a cluster opens the row.
    chromium.click(&cell("db.prod", "west"));
    chromium.wait_for("location.hash === '#/?name=db.prod.global'");
    chromium.wait_for_text("#explanation", "Answer");
}

/// Clicks on each row, and expects an answer to the name that it opens.
fn assert_rows_open_answers(chromium: &mut Chromium, suffix: &str) {
    chromium.wait_for_text("#map", "db.prod");
    for (index, service) in SERVICES.iter().enumerate() {
        let row = format!("document.querySelectorAll('#map tbody tr:not(.space)')[{index}]");
        chromium.click(&format!("{row}.querySelector('.result')"));
        chromium.wait_for_text("#answer-title", &format!("{service}.{suffix}"));
        chromium.wait_for("document.querySelector('#explanation .badge')");
        let result = chromium.text("#explanation .badge");
        assert_eq!(result, "NOERROR", "{service}.{suffix}");
        // The map shows which service the name belongs to.
        chromium.wait_for(&format!("{row}.querySelector('[aria-current]')"));
    }
    chromium.assert_no_complaint();
}

/// The first thing that a newcomer does.
#[test]
fn every_row_of_the_demo_opens_an_answer_in_the_first_zone() {
    let server = demo();
    assert_rows_open_answers(&mut open(&server, "", WIDE), "global");
    let text = std::fs::read_to_string(repository("src/demo.yaml")).unwrap();
    let zones = "--zone=clusterset.local=mcs,global";
    let server = Server::with_text(&text, &["--cluster-name=hub", zones]);
    assert_rows_open_answers(&mut open(&server, "", WIDE), "svc.clusterset.local");
}

#[test]
fn chosen_zone_names_the_services() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.evaluate(
        "(() => { const zones = document.querySelector('#by-zone'); zones.value = 'svc.clusterset.local.'; \
         zones.dispatchEvent(new Event('change')); })()",
    );
    assert_eq!(hash(&mut chromium), "#/?zone=svc.clusterset.local.");
    chromium.click(&cell("cache.prod", "west"));
    chromium.wait_for_text("#answer-title", "cache.prod.svc.clusterset.local");
}

#[test]
fn answer_lists_records_and_what_is_not_returned() {
    let server = demo();
    let mut chromium = open(&server, "#/?name=db.prod.global", WIDE);
    chromium.wait_for_text("#explanation", "Not returned");
    assert_eq!(chromium.text("#answer-title"), "db.prod.global");
    let text = chromium.evaluate("explanation.textContent");
    let text = text.as_str().unwrap();
    let port = server.dns.port();
    for expected in [
        "NOERROR",
        "headless · TTL 5 s · http 8080, sql 26257",
        &format!("dig @127.0.0.1 -p {port} +noall +answer db.prod.global. A"),
        "A 5 records, TTL 5 s",
        "10.96.10.1 db-0 · east Service/prod/db-0-east",
        "SRV 10 records, TTL 5 s",
        "0 10 26257 db-0.east.db.prod.global",
        "Its pod is not ready (1)",
        "192.0.2.12 db-2 · hub not ready",
        "EndpointSlice/prod/db-x7k2p",
        "Mirror of a service in another namespace (warning)",
        "Service/prod/db-9-east",
    ] {
        assert!(text.contains(expected), "{expected} in:\n{text}");
    }
    // The target of an SRV record leads to its answer.
    chromium.evaluate("[...document.querySelectorAll('#explanation a')].find((a) => a.textContent.startsWith('db-0.east')).click()");
    chromium.wait_for_text("#answer-title", "db-0.east.db.prod.global");
    chromium.wait_for_text("#explanation", "endpoint 'db-0'");
    chromium.evaluate("history.back()");
    chromium.wait_for("document.querySelector('#answer-title').innerText === 'db.prod.global'");
    chromium.assert_no_complaint();
}

#[test]
fn answer_with_nothing_but_endpoints_that_are_down_says_so() {
    let server = demo();
    let mut chromium = open(&server, "#/?name=cache.prod.global", WIDE);
    let expected = "NOERROR only endpoints that are down ";
    chromium.wait_for_text("#explanation .verdict", expected);
    let class = "document.querySelector('#explanation .badge').className";
    assert_eq!(chromium.evaluate(class), "badge attention");
}

#[test]
fn failover_step_and_expected_clusters_are_shown_if_there_are_any() {
    let server = demo();
    let mut summary = server.api("/api/v1/summary");
    let services = summary["services"].as_array_mut().unwrap();
    let db = services
        .iter_mut()
        .find(|service| service["service"] == "db")
        .unwrap();
    let cell_of = |cluster, state, endpoints, returned| json!({"cluster": cluster, "state": state, "alive": endpoints, "endpoints": endpoints, "returned": returned});
    db["failover"] = json!({"step": 1, "steps": 2});
    db["cells"] = json!([
        cell_of("east", "alive", 2, 2),
        cell_of("north", "expected", 0, 0),
        cell_of("west", "standby", 1, 0),
    ]);
    let mut chromium = Chromium::start();
    chromium.resize(WIDE);
    let summary = summary.to_string();
    chromium.substitute(Box::new(move |path| {
        (path == "summary").then(|| (summary.clone(), "application/json"))
    }));
    chromium.go(&url(&server, ""));
    chromium.wait_for_text("#map", "db.prod");
    let kinds = "[...document.querySelectorAll('#map td.kind')].map((td) => td.textContent)";
    let kinds = chromium.evaluate(kinds);
    assert!(
        kinds
            .as_array()
            .unwrap()
            .contains(&json!("headless, step 1 of 2")),
        "{kinds}"
    );
    for (cluster, expected) in [
        ("east", "alive 2/2"),
        ("north", "expected expected"),
        ("west", "standby 1/1"),
    ] {
        let cell = cell("db.prod", cluster);
        let shown = format!(
            "{cell}.querySelector('use').getAttribute('href').replace('#i-', '') + ' ' + {cell}.querySelector('span').textContent"
        );
        assert_eq!(chromium.evaluate(&shown), expected);
    }
    chromium.screenshot("failover-1440-light");
    chromium.click(&cell("db.prod", "east"));
    chromium.wait_for_text("#explanation .verdict", "failover step 1 of 2");
    chromium.assert_no_complaint();
}

/// Submits a name in the search box.
fn ask(chromium: &mut Chromium, name: &str) {
    chromium.evaluate("search.value = ''; search.focus()");
    chromium.type_text(name);
    chromium.press("Enter");
}

#[test]
fn search_box_explains_any_name() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    for (name, title, expected) in [
        (
            "pay.shop.global",
            "pay.shop.global",
            &["NOERROR", "gateway"][..],
        ),
        ("nope.prod.global", "nope.prod.global", &["NXDOMAIN"]),
        (
            "dbs.prod.global",
            "dbs.prod.global",
            &["NXDOMAIN", "Nearest names", "db.prod.global"],
        ),
        ("prod.global", "prod.global", &["NODATA"]),
        // A service is named in the zone that the page shows.
        ("db.prod", "db.prod.global", &["NOERROR", "10.96.10.1"]),
        (
            "www.example.org",
            "www.example.org",
            &["REFUSED", "Did you mean www.example.org.global?"],
        ),
        ("global", "global", &["apex of zone global"]),
    ] {
        ask(&mut chromium, name);
        chromium.wait_for(&format!(
            "document.querySelector('#answer-title').textContent === '{title}'"
        ));
        for text in expected {
            chromium.wait_for_text("#explanation", text);
        }
        let named =
            chromium.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('name')");
        assert_eq!(named, title);
    }
    chromium.screenshot("apex-1440-light");
    chromium.assert_no_complaint();
    // The console reports the status 400 itself.
    ask(&mut chromium, "a..b");
    chromium.wait_for_text("#explanation", "'a..b' is not a domain name");
    let complaints = chromium.complaints();
    assert!(
        complaints.iter().all(|complaint| complaint.contains("400")),
        "{complaints:?}"
    );
}

#[test]
fn copied_line_is_one_command_whatever_the_name_contains() {
    let server = demo();
    let port = server.dns.port();
    let mut chromium = open(&server, "", WIDE);
    for (name, is_answered) in [
        ("-f;id.prod.global", false),
        ("a$(id).prod.global", false),
        ("a'|id|'b.prod.global", false),
        ("a b`id`.prod.global", false),
        ("db-0.east.db.prod.global", true),
    ] {
        ask(&mut chromium, name);
        let name = json!(name);
        chromium.wait_for(&format!(
            "document.querySelector('#answer-title').textContent === {name}"
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
        let question = if is_answered {
            format!("+noall|+answer|{canonical}|A|")
        } else {
            format!("-q|{canonical}|-t|A|")
        };
        assert_eq!(printed, format!("@127.0.0.1|-p|{port}|{question}"));
    }
    chromium.evaluate("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})");
    chromium.evaluate("document.querySelector('#explanation .copy button').click()");
    chromium.wait_for_text("#explanation .copy button", "Copied");
    let line = chromium.text("#explanation .copy code");
    assert_eq!(chromium.evaluate("window.copied"), line);
}

// === Keyboard ===

#[test]
fn keyboard_reaches_rows_cells_and_answers() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    let focused = "document.activeElement.textContent";
    // The skip link is first. It leads to the first row.
    chromium.press("Tab");
    assert_eq!(chromium.evaluate(focused), "Skip to the services");
    chromium.press("Enter");
    assert_eq!(chromium.evaluate(focused), SERVICES[0]);
    for (key, index) in [
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("End", SERVICES.len() - 1),
        ("Home", 0),
    ] {
        chromium.press(key);
        assert_eq!(chromium.evaluate(focused), SERVICES[index], "{key}");
    }
    // The cells of clusters are to the right of the name: hub, west, where a service fails, east, and no one cluster.
    chromium.press("ArrowDown");
    chromium.press("ArrowRight");
    assert_eq!(chromium.evaluate("tip.hidden"), true);
    for _ in 0..2 {
        chromium.press("ArrowRight");
    }
    chromium.wait_for("!tip.hidden");
    assert_eq!(
        chromium.text("#tip"),
        "east: alive; 1 of 1 endpoint alive, 1 returned"
    );
    chromium.press("Enter");
    chromium.wait_for_text("#explanation", "Answer");
    chromium.wait_for("document.activeElement.id === 'answer-title'");
    chromium.press("Escape");
    chromium.wait_for("answer.hidden");
    assert_eq!(chromium.evaluate(focused), SERVICES[1]);
    assert_eq!(hash(&mut chromium), "#/");
    chromium.assert_no_complaint();
}

#[test]
fn slash_leads_to_the_search_box_and_escape_clears_it() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    chromium.press("/");
    chromium.wait_for("document.activeElement === search");
    chromium.type_text("pay");
    assert_eq!(shown_services(&mut chromium), ["pay.shop"]);
    assert_eq!(hash(&mut chromium), "#/?q=pay");
    chromium.press("Escape");
    assert_eq!(shown_services(&mut chromium), SERVICES);
    assert_eq!(hash(&mut chromium), "#/");
    assert_eq!(chromium.evaluate("search.value"), "");
    chromium.press("/");
    chromium.type_text("db");
    chromium.press("ArrowDown");
    assert_eq!(
        chromium.evaluate("document.activeElement.textContent"),
        "db.prod"
    );
}

// === Windows ===

#[test]
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
        for (route, name, part) in [
            ("", "services", "#map tbody a"),
            ("#/?name=db.prod.global", "name", "#explanation .endpoints"),
            ("#/problems", "problems", "#problem-list .group"),
            ("#/changes", "changes", "#change-list li"),
            (
                "#/?open=gateway-down/west",
                "cause",
                "#attention .affected li",
            ),
        ] {
            let mut chromium = open(&server, route, Window(width, height, scheme));
            chromium.wait_for(&format!("document.querySelector('{part}')?.innerText"));
            let overflow = chromium.evaluate("document.documentElement.scrollWidth - innerWidth");
            assert!(
                overflow.as_i64().unwrap() <= 0,
                "{name} at {width}: {overflow}"
            );
            chromium.screenshot(&format!("{name}-{width}-{scheme}"));
            chromium.assert_no_complaint();
        }
    }
}

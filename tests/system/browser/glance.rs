//! The first glance, the map and its filters, with the services of the demo.

use crate::browser::chromium::{Chromium, WIDE};
use crate::browser::{SERVICES, demo, open, url};

/// Returns an expression for the cell of a service and a cluster.
fn cell(service: &str, cluster: &str) -> String {
    format!(
        "(() => {{ const at = [...document.querySelectorAll('#map thead th')].findIndex((th) => th.abbr === '{cluster}'); \
         const row = [...document.querySelectorAll('#map tbody tr')].find((tr) => \
         tr.querySelector('a')?.textContent === '{service}'); return row?.children[at]; }})()"
    )
}

fn shown_services(chromium: &mut Chromium) -> Vec<String> {
    let links = "[...document.querySelectorAll('#map tbody a')].map((a) => a.textContent)";
    serde_json::from_value(chromium.evaluate(links)).unwrap()
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

#[test]
fn first_glance_says_what_is_wrong_where_and_since_when() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    let status = server.api("/api/v1/status");
    for (selector, expected) in [
        ("#sentence", "1 service fails"),
        ("#cluster", "hub"),
        ("#replica", status["replica"].as_str().unwrap()),
        ("#by-zone", "global.\nsvc.clusterset.local."),
        ("#link", "Live"),
    ] {
        assert_eq!(chromium.text(selector), expected, "{selector}");
    }
    assert_eq!(chromium.evaluate("headline.className"), "failing");
    let title = chromium.evaluate("document.title");
    assert_eq!(title, "1 service fails – hub – global-dns");
    let place = chromium.text("#where");
    assert!(place.starts_with("west and 1 more before "), "{place}");
    chromium.wait_for_text("#attention", "west Gateway is down: prod/cache before ");
    chromium.wait_for_text("#attention", "cluster 'west': cache-0");
    // A cause unfolds, and leads to the services that it affects.
    chromium.evaluate("document.querySelector('#attention .fold').click()");
    chromium.wait_for_text("#attention .unfolded", "What to do: check the gateway");
    chromium.wait_for("document.querySelector('#attention .affected li')");
    chromium.wait_for("location.hash === '#/?open=gateway-down/west'");
    chromium.screenshot("cause-1440-light");
    chromium.evaluate(
        "[...document.querySelectorAll('#attention .cause a')].find((link) => link.innerText === 'prod/cache').click()",
    );
    chromium.wait_for_text("#answer-title", "cache.prod.global");
    chromium.assert_no_complaint();
}

#[test]
fn map_has_services_in_trouble_first_and_the_state_of_each_cluster() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#map", "db.prod");
    assert_eq!(shown_services(&mut chromium), SERVICES);
    for (service, cluster, expected) in [
        ("db.prod", "hub", "2/3 not ready before "),
        ("db.prod", "east", "2/2 alive; 2 of 2 endpoints alive"),
        ("cache.prod", "west", "0/1 down before "),
        (
            "pay.shop",
            "east",
            "1/1 standby; 1 of 1 endpoint alive, 0 returned",
        ),
        ("web.shop", "east", "no endpoint"),
    ] {
        let text = chromium.evaluate(&format!("{}.textContent", cell(service, cluster)));
        let text = text.as_str().unwrap();
        assert!(text.starts_with(expected), "{service}, {cluster}: {text}");
    }
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
        let address = format!("#/?{name}={}", value.replace(' ', "+"));
        assert_eq!(chromium.evaluate("location.hash"), address);
        chromium.go("about:blank");
        chromium.go(&url(&server, &address));
        chromium.wait_for_text("#services-count", &count);
        assert_eq!(shown_services(&mut chromium), expected, "{address}");
        chromium.evaluate("clear.click()");
        // The address changes before the page follows it.
        chromium.wait_for("location.hash === '#/' && clear.hidden");
    }
    chromium.assert_no_complaint();
}

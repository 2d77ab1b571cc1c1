//! The first glance: what is wrong, the services, their filters, and the past, with the services of the demo.

use support::objects::{Manifest, gateway_mirror};
use support::server::Server;
use support::standin::{Behavior, StandIn};

use crate::browser::chromium::{Chromium, WIDE};
use crate::browser::{SERVICES, demo, open, url};

fn shown_services(chromium: &mut Chromium) -> Vec<String> {
    let links = "[...document.querySelectorAll('#map tbody a')].map((a) => a.textContent)";
    serde_json::from_value(chromium.evaluate(links)).unwrap()
}

#[test]
fn first_glance_says_what_is_wrong_where_and_since_when() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    let status = server.api("/api/v1/status")["items"][0].take();
    for (selector, expected) in [
        ("#sentence", "1 service fails"),
        ("#rest", "6 services"),
        ("#own-cluster", "hub"),
        ("#replica", status["replica"].as_str().unwrap()),
        ("#connection", "Live"),
    ] {
        assert_eq!(chromium.text(selector), expected, "{selector}");
    }
    assert_eq!(chromium.evaluate("headline.className"), "failing");
    let title = chromium.evaluate("document.title");
    assert_eq!(title, "1 service fails – hub – global-dns");
    chromium.wait_for_text("#causes", "west Gateway is down before ");
    chromium.wait_for_text(
        "#causes",
        "1 endpoint prod/cache fails cluster 'west': cache-0",
    );
    // A cause has its section in the page, and leads to the services that it affects.
    chromium.evaluate("document.querySelector('#causes summary').click()");
    chromium.wait_for("location.hash === '#open=gateway-down/west'");
    chromium.wait_for_text(
        "#causes .section",
        "What to do: check the gateway in cluster west",
    );
    chromium.wait_for_text("#causes .section", "global-dns explain --kind gateway-down");
    chromium.wait_for_text("#causes .affected", "prod/cache");
    chromium.screenshot("cause-1440-light");
    chromium.evaluate("document.querySelector('#causes .affected a').click()");
    chromium.wait_for_text("#title", "cache.prod.global");
    chromium.assert_no_complaint();
}

#[test]
fn rows_have_services_in_trouble_first_and_the_state_of_each_cluster() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    assert_eq!(shown_services(&mut chromium), SERVICES);
    let rows = "[...document.querySelectorAll('#map tr')].map((row) => [...row.children].filter((cell) => cell.checkVisibility()).map((cell) => cell.innerText).join('|'))";
    let rows: Vec<String> = serde_json::from_value(chromium.evaluate(rows)).unwrap();
    assert_eq!(
        rows,
        [
            "Service .global|Answer|Kind|hub here|east|west|federated|Problem",
            "cache.prod|1 of 1|headless|–|–|0/1 down|–|Gateway is down",
            "db.prod|5 of 6|headless|2/3 not ready|2/2|1/1|–|Pods are not ready",
            "api.shop|1 of 1|flat|–|1/1|–|–|",
            "db-east.shop|1 of 1|headless|–|1/1|–|–|",
            "pay.shop|1 of 3|local, step 1 of 2|1/1|1/1 standby|1/1 standby|–|",
            "web.shop|1 of 1|federated|–|–|–|1/1|",
        ]
    );
}

#[test]
fn filters_select_rows_and_their_address_shows_the_same() {
    let server = demo();
    let mut chromium = open(&server, "", WIDE);
    for (name, input, value, expected) in [
        ("q", "search", "DB", &["db.prod", "db-east.shop"][..]),
        ("q", "search", "pay.shop.global", &["pay.shop"]),
        ("state", "state", "failing", &["cache.prod"]),
        ("state", "state", "attention", &[]),
        ("namespace", "namespace", "prod", &["cache.prod", "db.prod"]),
        (
            "cluster",
            "cluster",
            "west",
            &["cache.prod", "db.prod", "pay.shop", "web.shop"],
        ),
    ] {
        chromium.evaluate(&format!(
            "document.getElementById('{input}').value = '{value}'; ['input', 'change'].forEach((type) => \
             document.getElementById('{input}').dispatchEvent(new Event(type)))"
        ));
        let address = format!("#{name}={value}");
        chromium.wait_for(&format!("location.hash === '{address}'"));
        let count = format!(
            "document.querySelectorAll('#map tbody a').length === {}",
            expected.len()
        );
        chromium.wait_for(&count);
        assert_eq!(shown_services(&mut chromium), expected, "{address}");
        chromium.go("about:blank");
        chromium.go(&url(&server, &address));
        chromium.wait_for("document.body.dataset.connection === 'live'");
        assert_eq!(shown_services(&mut chromium), expected, "{address}");
        chromium.evaluate("clear.click()");
        chromium.wait_for("clear.hidden && document.querySelectorAll('#map tbody a').length === 6");
    }
    chromium.assert_no_complaint();
}

fn service(name: &str) -> Manifest {
    gateway_mirror("prod", name, "east", "10.100.0.1").into()
}

#[test]
fn page_follows_changes_shows_the_past_and_says_that_the_api_server_cannot_be_read() {
    let standin = StandIn::start(Behavior::Normal, &service("one").0).unwrap();
    let server =
        Server::ready_of_cluster(&standin.kubeconfig, &["links.enabled=false", "grace=0s"]);
    let mut chromium = open(&server, "", WIDE);
    assert_eq!(chromium.text("#sentence"), "All names are answered");
    for object in service("two").0 {
        standin.put(&object);
    }
    chromium.wait_for("document.querySelectorAll('#map tbody a').length === 2");
    chromium.evaluate("document.getElementById('to-changes').click()");
    chromium.wait_for_text("#content", "Cluster east joined prod/two");
    // The bar has a mark for the change. Before it, there was one service.
    chromium.wait_for("document.querySelector('.t-changes').getAttribute('d').includes('M')");
    let start = server.api("/api/v1/status")["items"][0]["historyStart"].take();
    let past = format!("new Date(Date.parse({start}) + 1).toISOString()");
    chromium.evaluate(&format!("location.hash = 'at=' + {past}"));
    chromium.wait_for_text("#past", "not now");
    chromium.wait_for_text("#sentence", "No answers yet: there is no complete table");
    chromium.evaluate("back.click()");
    chromium.wait_for("document.querySelectorAll('#map tbody a').length === 2");
    chromium.evaluate("location.hash = 'at=2001-01-01T00:00:00Z'");
    chromium.wait_for_text("#sentence", "The history begins at ");
    chromium.evaluate("location.hash = ''");
    standin.set_behavior(Behavior::Unreachable);
    chromium.wait_for("/^Cannot read the API server since \\d\\d:\\d\\d; the answers are those of then$/.test(sentence.innerText)");
    assert_eq!(chromium.evaluate("headline.className"), "attention");
    // The first line of the page has said it.
    assert!(!chromium.text("#causes").contains("not available"));
    chromium.screenshot("dead-1440-light");
    drop(server);
    chromium.wait_for_text("#sentence", "Disconnected since ");
}

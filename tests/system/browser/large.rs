//! Ten thousand services, one of them in many clusters: only what is visible is in the document. A change does not move it.

use serde_json::Value;
use support::objects::{Manifest, gateway_mirror};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;

use crate::browser::chromium::WIDE;
use crate::browser::open;

const SERVICES: usize = 10_000;
const CLUSTERS: usize = 60;
/// Columns of clusters at most, with the head that counts the others.
const MOST_HEADS: usize = 41;
/// Rows in the document at most.
const MOST_ROWS: u64 = 100;

/// Scrolls, slowly and fast, and returns the largest number of rows in the document.
const SCROLL: &str = "(async () => {
    const scroll = document.getElementById('scroll');
    let most = 0;
    for (let step = 0; step < 40; step += 1) {
        scroll.scrollTop += step < 20 ? 120 : 12000;
        await new Promise(requestAnimationFrame);
        most = Math.max(most, document.querySelectorAll('#map tbody tr').length);
    }
    return most;
})()";

/// A row in the middle of the map, and its place in it.
const MIDDLE: &str = "(() => {
    const box = document.getElementById('scroll').getBoundingClientRect();
    const row = document.elementFromPoint(box.x + 20, box.y + 300).closest('tr');
    return [row.querySelector('a').textContent, Math.round(row.getBoundingClientRect().y - box.y)];
})()";

/// A service. Every tenth is in trouble.
fn service(number: usize) -> Manifest {
    let namespace = format!("team-{}", number / 200);
    let address = format!("10.100.{}.{}", number / 250, number % 250 + 1);
    let mirror = gateway_mirror(&namespace, &format!("service-{number}"), "east", &address);
    match number % 10 {
        0 => mirror.without_ready_endpoint().into(),
        _ => mirror.into(),
    }
}

/// A mirror of the service that many clusters have.
fn wide(number: usize) -> Manifest {
    let address = format!("10.200.0.{}", number + 1);
    gateway_mirror("wide", "wide", &format!("cluster-{number:02}"), &address).into()
}

#[test]
fn only_visible_rows_and_columns_are_in_the_document() {
    let services = (0..SERVICES).map(service);
    let objects: Manifest = services.chain((0..CLUSTERS).map(wide)).collect();
    let standin = StandIn::start(Behavior::Normal, &objects.0).unwrap();
    let flags = ["links.enabled=false", "grace=0s"];
    let server = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#services-count", "10,001");
    let most = chromium.evaluate(SCROLL);
    assert!(most.as_u64().unwrap() < MOST_ROWS, "{most}");
    // The last row is reached by one key, and its number is the number of the row in the whole table. New rows take the focus.
    let number = "Number(document.activeElement.closest('tr')?.getAttribute('aria-rowindex'))";
    wait_for("the last row", || {
        chromium.evaluate("document.getElementById('scroll').focus()");
        chromium.press("End");
        (chromium.evaluate(number) == SERVICES + 2).then_some(())
    });
    chromium.screenshot("large-1440-light");
    // A change above the visible rows does not move them.
    chromium.evaluate("document.getElementById('scroll').scrollTop = 170005");
    chromium.evaluate("new Promise(requestAnimationFrame)");
    let middle = chromium.evaluate(MIDDLE);
    for object in [service(0).0, service(1).0].concat() {
        standin.delete(&object);
    }
    chromium.wait_for_text("#services-count", "9,999");
    assert_eq!(chromium.evaluate(MIDDLE), middle);
    // The own cluster, east and the first of the others have columns, and the cluster of a filter.
    let heads = "[...document.querySelectorAll('#map thead th.cell')].map((head) => head.abbr || head.textContent)";
    let shown = chromium.evaluate(heads);
    let shown: &Vec<Value> = shown.as_array().unwrap();
    assert_eq!((shown.len(), &shown[0]), (MOST_HEADS, &"hub".into()));
    assert_eq!(shown[MOST_HEADS - 1], "+22 more");
    assert!(!shown.contains(&"cluster-59".into()));
    chromium.evaluate("location.hash = '#/?cluster=cluster-59'");
    chromium.wait_for("document.querySelector('#map thead [abbr=cluster-59]')");
    chromium.assert_no_complaint();
}

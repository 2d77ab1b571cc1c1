//! Five thousand services, and a service of five thousand endpoints: the page shows a page of rows, so that its work does not grow.

use support::objects::{Manifest, gateway_mirror, mirror};
use support::server::Server;

use crate::browser::chromium::{Chromium, WIDE};
use crate::browser::url;

const COUNT: usize = 5000;
/// Elements in the document, and octets that are sent, at most.
const MOST_ELEMENTS: u64 = 3000;
const MOST_OCTETS: u64 = 60_000;

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

/// A service of many endpoints.
fn database() -> Manifest {
    let endpoint = |mirror: support::objects::Mirror, number: usize| {
        let address = format!("10.120.{}.{}", number / 250, number % 250 + 1);
        mirror.endpoint(&format!("db-{number}"), &[&address])
    };
    (0..COUNT)
        .fold(mirror("prod", "db", "east"), endpoint)
        .into()
}

/// Opens a place, and waits until the document has a part of it.
fn open(chromium: &mut Chromium, server: &Server, place: &str, part: &str) {
    chromium.go("about:blank");
    chromium.go(&url(server, place));
    let found = chromium.evaluate(&format!(
        "new Promise((resolve) => {{ const look = () => document.querySelector('{part}') ? resolve(performance.now()) \
         : requestAnimationFrame(look); look(); }})"
    ));
    let elements = chromium.evaluate("document.querySelectorAll('*').length");
    assert!(elements.as_u64().unwrap() < MOST_ELEMENTS, "{elements}");
    let sent = chromium.evaluate(
        "performance.getEntries().reduce((sum, {transferSize = 0}) => sum + transferSize, 0)",
    );
    assert!(sent.as_u64().unwrap() <= MOST_OCTETS, "{sent}");
    println!("{place}: {elements} elements, {sent} octets, shown after {found} ms");
}

#[test]
fn large_table_and_large_service_open_as_a_page_of_rows() {
    let services = (0..COUNT).map(service);
    let objects: Manifest = services.chain([database()]).collect();
    let server = Server::with_objects(objects, &[]);
    let mut chromium = Chromium::start(WIDE);
    for (place, part) in [
        ("", "#map tbody tr"),
        ("#name=db.prod.global", "#content li"),
    ] {
        open(&mut chromium, &server, place, part);
    }
    chromium.wait_for_text("#content", "of 5,000 over TCP, TC");
    chromium.evaluate("[...document.querySelectorAll('#content button')].at(-1).click()");
    chromium.wait_for("document.querySelectorAll('#content li').length > 140");
    chromium.evaluate(
        "location.hash = ''; [...document.querySelectorAll('#pages button')].at(-1).click()",
    );
    chromium.wait_for_text("#pages", "Services 81 to 160 of 5,001");
    chromium.screenshot("large-1440-light");
    chromium.assert_no_complaint();
}

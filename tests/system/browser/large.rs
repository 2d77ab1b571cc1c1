//! Ten thousand services: only the visible rows are in the document, also while a reader scrolls and filters. A change does not
//! move them.

use std::ops::Range;
use std::time::Instant;

use serde_json::Value;
use support::objects::{Manifest, gateway_mirror, objects};
use support::server::Server;

use crate::browser::chromium::WIDE;
use crate::browser::open;

const SERVICES: usize = 10_000;

/// Maximum number of elements that one frame adds to the table. The times of tasks and frames are only printed, because
/// they depend on other work of the machine.
const MOST_ADDED: f64 = 500.0;

/// Runs `action` and returns the largest number of elements that a frame adds to the table, and the longest task, the
/// median and the longest frame in milliseconds.
const MEASURE: &str = "(async () => {
    const added = [0];
    let count = 0;
    const changes = new MutationObserver((records) => {
        count += records.reduce((sum, record) => sum + record.addedNodes.length, 0);
    });
    changes.observe(document.getElementById('map'), {childList: true, subtree: true});
    const tasks = [0];
    const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)));
    observer.observe({type: 'longtask'});
    const frames = [];
    let last = performance.now();
    const frame = async () => {
        await new Promise(requestAnimationFrame);
        added.push(count);
        count = 0;
        frames.push(performance.now() - last);
        last = performance.now();
    };
    ACTION
    await new Promise((resolve) => setTimeout(resolve, 100));
    tasks.push(...observer.takeRecords().map((entry) => entry.duration));
    frames.sort((one, other) => one - other);
    return [Math.max(...added), Math.max(...tasks), frames[frames.length >> 1], frames.at(-1)];
})()";

const SCROLL: &str = "const scroll = document.getElementById('scroll');
    for (let step = 0; step < 150; step += 1) { scroll.scrollTop += step < 75 ? 120 : 3000; await frame(); }";

const FILTER: &str = "const search = document.getElementById('search');
    for (const text of ['s', 'se', 'service-1', 'service-12', 'service-123', 'x', '', 'team-7', '']) {
        search.value = text; search.dispatchEvent(new Event('input')); await frame();
    }
    const state = document.querySelector('[data-for=services] [data-filter=state]');
    for (const value of ['down', 'attention', '']) {
        state.value = value; state.dispatchEvent(new Event('input', {bubbles: true})); await frame();
    }";

/// A row in the middle of the map, and its place in it.
const MIDDLE: &str = "(() => {
    const box = document.getElementById('scroll').getBoundingClientRect();
    const row = document.elementFromPoint(box.x + 20, box.y + 300).closest('tr');
    return [row.querySelector('a').textContent, Math.round(row.getBoundingClientRect().y - box.y)];
})()";

/// Services of which every tenth is in trouble.
fn services(numbers: Range<usize>) -> Manifest {
    let mut manifest = objects();
    for number in numbers {
        let (namespace, name) = (
            format!("team-{}", number / 200),
            format!("service-{number}"),
        );
        let address = format!(
            "10.{}.{}.{}",
            100 + number / 62_500,
            number / 250 % 250,
            number % 250 + 1
        );
        let mirror = gateway_mirror(&namespace, &name, "east", &address);
        let mirror = if number % 10 == 0 {
            mirror.without_ready_endpoint()
        } else {
            mirror
        };
        manifest = manifest.with(mirror);
    }
    manifest
}

#[test]
fn ten_thousand_services_scroll_and_filter_with_few_changes_of_the_page() {
    let flags = ["--cluster-name=hub", "--grace=0s"];
    let server = Server::with_text(&services(0..SERVICES).list(), &flags);
    let mut chromium = open(&server, "", WIDE);
    chromium.wait_for_text("#services-count", "10,000");
    let rows = "document.querySelectorAll('#map tbody tr').length";
    for (what, action) in [("scroll", SCROLL), ("filter", FILTER)] {
        let figures: Vec<f64> = chromium
            .evaluate(&MEASURE.replace("ACTION", action))
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        let [added, task, median, longest] = figures[..] else {
            panic!("{figures:?}")
        };
        println!(
            "{what}: at most {added} elements added in a frame, longest task {task:.0} ms, frames {median:.1} ms (median) \
             to {longest:.1} ms"
        );
        assert!(
            (1.0..MOST_ADDED).contains(&added),
            "{what}: a frame added {added} elements"
        );
        assert!(chromium.evaluate(rows).as_u64().unwrap() < 100);
    }
    assert_eq!(
        chromium.evaluate("Number(document.querySelector('#map').getAttribute('aria-rowcount'))"),
        SERVICES + 1
    );
    // The last row is reached by one key, and its number is the number of the row in the whole table.
    chromium.evaluate("document.getElementById('scroll').focus()");
    chromium.press("End");
    let last = "document.activeElement.closest('tr').getAttribute('aria-rowindex')";
    assert_eq!(chromium.evaluate(last), (SERVICES + 1).to_string());
    chromium.screenshot("large-1440-light");
    // A change above the visible rows does not move them.
    chromium.evaluate("document.getElementById('scroll').scrollTop = 170005");
    chromium.evaluate("new Promise(requestAnimationFrame)");
    let middle = chromium.evaluate(MIDDLE);
    server.rewrite(&services(2..SERVICES).list());
    let begin = Instant::now();
    chromium.wait_for_text("#services-count", "9,998");
    println!("change: after {} ms", begin.elapsed().as_millis());
    assert_eq!(chromium.evaluate(MIDDLE), middle);
    chromium.assert_no_complaint();
}

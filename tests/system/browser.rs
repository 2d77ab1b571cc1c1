//! The status page in Chromium, with the real server. Pictures of the page are kept in `target/page`.
// Chromium and its DevTools protocol.
mod chromium;
// The first glance, the map, its filters, and problems.
mod glance;
// The answer to a name, by mouse, by keyboard and by the search box.
mod answer;
// Markup in every field of the API, and in names that a link contains; requests of pages of other sites.
mod attack;
// Ten thousand services, and sixty clusters.
mod large;
// The picture of the page in the manual.
mod picture;
// What axe finds in every view, and parts that do not fit.
mod accessibility;

use std::process::Stdio;

use support::server::Server;

use crate::browser::chromium::{Chromium, Window};

/// The services of the demo: those in trouble first, then in natural order.
const SERVICES: [&str; 6] = [
    "cache.prod",
    "api.shop",
    "db.prod",
    "db-east.shop",
    "pay.shop",
    "web.shop",
];

/// Runs `demo`.
fn demo() -> Server {
    Server::demo(tempfile::tempdir().unwrap(), Stdio::null(), &[])
}

/// Returns the address of the page, with a route such as `#/changes`.
fn url(server: &Server, route: &str) -> String {
    format!("http://{}/{route}", server.api)
}

/// Opens the page of a server and waits until it is up to date.
fn open(server: &Server, route: &str, window: Window) -> Chromium {
    let mut chromium = Chromium::open(&url(server, route), window);
    chromium.wait_for("document.body.dataset.link === 'live'");
    chromium
}

//! The status page in Chromium, with the real server. Pictures of the page are kept in `target/page`.
// Chromium and its DevTools protocol.
mod chromium;
// What is wrong, the services and their filters, the past, and an API server that cannot be read.
mod glance;
// The answer to a name, by mouse, by keyboard and by the search box.
mod answer;
// Markup in every field of the API, and in names that a link contains; requests of pages of other sites.
mod attack;
// Five thousand services, and a service of five thousand endpoints.
mod large;
// What axe finds in every view, and parts that do not fit.
mod accessibility;

use std::process::Stdio;

use support::server::Server;

use crate::browser::chromium::{Chromium, Window};

/// The services of the demo: those in trouble first, then by namespace.
const SERVICES: [&str; 6] = [
    "cache.prod",
    "db.prod",
    "api.shop",
    "db-east.shop",
    "pay.shop",
    "web.shop",
];

/// Runs `demo`.
fn demo() -> Server {
    Server::demo(tempfile::tempdir().unwrap(), Stdio::null())
}

/// Returns the address of the page, with a place such as `#state=failing`.
fn url(server: &Server, place: &str) -> String {
    format!("http://{}/{place}", server.api)
}

/// Opens the page of a server and waits until it is up to date.
fn open(server: &Server, place: &str, window: Window) -> Chromium {
    let mut chromium = Chromium::open(&url(server, place), window);
    chromium.wait_for("document.body.dataset.connection === 'live'");
    chromium
}

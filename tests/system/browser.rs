//! The status page in Chromium, with the real server. Pictures of the page are kept in `target/page`.
// Chromium and its DevTools protocol.
mod chromium;
// The first glance, the map, its filters, problems, and the answer to a name, with mouse, keyboard and address bar.
mod page;
// States of the server: loading, empty, disconnected; changes without a reload; a restart; a hidden page.
mod states;
// Markup in every field of the API, and in names that a link contains; requests of pages of other sites.
mod attack;
// Ten thousand services.
mod large;
// Many causes and clusters, long names, and no stream.
mod many;
// What the page transfers.
mod light;
// The time bar.
mod time;
// What axe finds in every view.
mod accessibility;
// The picture of the page in the manual.
mod picture;

use std::process::Stdio;

use support::server::Server;

use crate::browser::chromium::{Chromium, Window};

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

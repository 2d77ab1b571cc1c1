//! The picture of the page in the manual. `tests/tools/picture` writes it.

use std::fs;

use serde_json::json;
use support::repository::repository;

use crate::browser::chromium::Window;
use crate::browser::{demo, open};

const PICTURE: &str = "charts/global-dns/docs/src/page.webp";
/// If set, the picture is written.
const WRITE: &str = "GLOBAL_DNS_WRITE_PICTURE";
/// Octets. Everybody who clones the repository loads it.
const MAX_SIZE: usize = 150_000;

/// The picture contains times, so it is not compared with the page.
#[test]
fn picture_of_the_page_is_small() {
    if std::env::var_os(WRITE).is_some() {
        let server = demo();
        let mut chromium = open(&server, "#name=db.prod.global", Window(1280, 800, "light"));
        chromium.wait_for("document.querySelector('#content .verdict')");
        let picture = chromium.capture(json!({"format": "webp", "quality": 90}));
        fs::write(repository(PICTURE), picture).unwrap();
    }
    let size = fs::read(repository(PICTURE)).unwrap().len();
    assert!(size <= MAX_SIZE, "{PICTURE} has {size} octets");
}

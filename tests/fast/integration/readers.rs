//! Readers of a large table cost nobody else (promise 7): lists are of one moment while the table changes, and probes wait for no page.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use serde_json::Value;
use support::http::get;
use support::objects::{Gateway, Manifest, mirror};
use support::process::run_global_dns;
use support::server::Server;
use support::standin::{Behavior, StandIn};

/// Services, and the endpoints of each: 20,000 in all.
const SERVICES: usize = 2000;
const ENDPOINTS: usize = 10;
const READERS: usize = 3;

/// Returns a service of the table.
fn service(number: usize) -> Manifest {
    let service = format!("db{number}");
    let endpoints = (0..ENDPOINTS).fold(mirror("prod", &service, "east"), |mirror, host| {
        let address = format!("10.{}.{}.{host}", number / 250, number % 250);
        mirror.endpoint_behind(Gateway::Unknown, &format!("{service}-{host}"), &[&address])
    });
    endpoints.into()
}

/// Reads the names of all services, page by page. Another service changes before each further page.
fn names(server: &Server, standin: &StandIn) -> Vec<String> {
    let (mut names, mut place) = (Vec::new(), String::new());
    for number in 1.. {
        let mut page = server.api(&format!("/api/v1/table?limit=1000{place}"));
        let rows: Vec<Value> = serde_json::from_value(page["items"].take()).unwrap();
        let rows = rows.iter().filter(|row| row["section"] == "services");
        names.extend(rows.map(|row| row["service"].to_string()));
        let Some(next) = page["continue"].as_str() else {
            break;
        };
        place = format!("&continue={next}");
        let new = mirror("prod", "new", "west");
        standin.put(&new.service());
        let address = format!("10.9.0.{number}");
        standin.put(&new.endpoint_mirror("new-0", &[&address]));
        server.wait_for_outcome("new.prod.global. A", &address);
    }
    names
}

#[test]
fn probes_are_answered_beside_readers_of_a_large_table() {
    let mut objects: Vec<Value> = (0..SERVICES).flat_map(|number| service(number).0).collect();
    let wrong = mirror("shop", "pay", "east");
    let wrong = wrong.endpoint_behind(Gateway::Down, "pay-0", &["10.96.1.1"]);
    objects.extend(Manifest::from(wrong).0);
    let standin = StandIn::start(Behavior::Normal, &objects).unwrap();
    standin.keep_watches();
    let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
    let (pages, is_done) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !is_done.load(SeqCst) {
                    server.api("/api/v1/table?limit=1000");
                    pages.fetch_add(1, SeqCst);
                }
            });
        }
        let list = scope.spawn(|| {
            let names = names(&server, &standin);
            is_done.store(true, SeqCst);
            names
        });
        // How many pages were answered while a probe waited.
        let mut waits = Vec::new();
        while !list.is_finished() {
            for path in ["/livez", "/readyz", "/metrics"] {
                let before = pages.load(SeqCst);
                assert_eq!(get(server.admin, path).unwrap().status, 200, "{path}");
                waits.push(pages.load(SeqCst) - before);
            }
            server.assert_answers();
        }
        waits.sort_unstable();
        assert!(waits[waits.len() / 2] <= 1, "{waits:?}");
        let names = list.join().unwrap();
        assert_eq!(names.len(), SERVICES + 1);
        assert_eq!(BTreeSet::from_iter(&names).len(), names.len());
    });
    let url = format!("--server=http://{}", server.api);
    let text = run_global_dns(&["table", "--cluster=east,nosuch", &url]).stdout;
    assert_eq!(text.matches("cluster 'nosuch'").count(), 1, "{text}");
    let mut first = text.lines().take(20);
    let wrong = first.find(|line| line.contains("pay.shop"));
    assert!(
        wrong.is_some_and(|line| line.ends_with("Gateway is down")),
        "{text}"
    );
}

//! What the page transfers: when it is loaded, and while answers change.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use support::objects::{Manifest, mirror, objects};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wait::wait_for;

use crate::browser::chromium::{Chromium, WIDE};

const SERVICES: usize = 5000;
const CLUSTERS: [&str; 5] = ["east", "west", "north", "south", "apac"];
const HOSTS: usize = 2;

/// Octets that the page and its data may transfer when it is loaded.
const MAX_LOADED: u64 = 300_000;

/// Octets that the page may transfer in [`PERIOD`] with a change every [`PAUSE`].
const MAX_FOLLOWED: u64 = 100_000;
const PERIOD: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(3);

/// Forwards connections to a server, and counts the octets that it sends, headers included.
struct Counter {
    address: SocketAddr,
    octets: Arc<AtomicU64>,
}

impl Counter {
    fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let octets = Arc::<AtomicU64>::default();
        let counted = octets.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (to_client, server) = (
                    client.try_clone().unwrap(),
                    TcpStream::connect(server).unwrap(),
                );
                let to_server = server.try_clone().unwrap();
                let counted = counted.clone();
                thread::spawn(move || copy(&client, &to_server, &AtomicU64::new(0)));
                thread::spawn(move || copy(&server, &to_client, &counted));
            }
        });
        Self { address, octets }
    }

    fn octets(&self) -> u64 {
        self.octets.load(Relaxed)
    }
}

/// Copies octets until either side closes the connection.
fn copy(mut from: &TcpStream, mut to: &TcpStream, counted: &AtomicU64) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        counted.fetch_add(count as u64, Relaxed);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Both);
}

/// 5,000 services with ten endpoints each.
fn many() -> Manifest {
    let mut manifest = objects();
    for number in 0..SERVICES {
        let (namespace, name) = (format!("team-{}", number / 50), format!("service-{number}"));
        for (place, cluster) in CLUSTERS.iter().enumerate() {
            let mut mirror = mirror(&namespace, &name, cluster);
            for host in 0..HOSTS {
                let place = (number * CLUSTERS.len() + place) * HOSTS + host;
                let address = format!(
                    "10.{}.{}.{}",
                    place / 62_500,
                    place / 250 % 250,
                    place % 250 + 1
                );
                mirror = mirror.endpoint(&format!("{name}-{host}"), &[&address]);
            }
            manifest = manifest.with(mirror);
        }
    }
    manifest
}

#[test]
fn page_of_five_thousand_services_transfers_little() {
    let standin = StandIn::start(Behavior::Normal, &many().0).unwrap();
    let flags = ["--links=off", "--grace", "0s"];
    let server = Server::of_cluster(&standin.kubeconfig, &flags);
    wait_for("the table", || {
        (server.api("/api/v1/status")["state"] == "ready").then_some(())
    });
    let counter = Counter::start(server.api);
    let started = Instant::now();
    let url = format!("http://{}/", counter.address);
    let mut chromium = Chromium::open(&url, WIDE);
    chromium.wait_for_text("#services-count", "5,000");
    chromium.wait_for("document.body.dataset.link === 'live'");
    let (loaded, took) = (counter.octets(), started.elapsed());
    let changed = mirror("team-7", "service-350", "east");
    let end = Instant::now() + PERIOD;
    let mut changes = 0;
    while Instant::now() < end {
        changes += 1;
        let host = format!("service-350-{}", HOSTS + changes);
        standin.put(&changed.endpoint_mirror(&host, &[&format!("10.250.0.{changes}")]));
        thread::sleep(PAUSE.min(end.saturating_duration_since(Instant::now())));
    }
    let followed = counter.octets() - loaded;
    let memory = server.process().memory("VmRSS").unwrap();
    println!(
        "loaded: {loaded} octets in {} ms; {changes} changes in {} s: {followed} octets; memory of the server: {memory} KiB",
        took.as_millis(),
        PERIOD.as_secs(),
    );
    assert!(loaded <= MAX_LOADED, "{loaded} octets");
    assert!(followed <= MAX_FOLLOWED, "{followed} octets");
    // The page shows what it followed.
    chromium.evaluate("location.hash = '#/?q=service-350'");
    let row = format!("{}/{}", HOSTS + changes, HOSTS + changes);
    chromium.wait_for(&format!(
        "document.getElementById('map').innerText.includes('{row}')"
    ));
    chromium.assert_no_complaint();
}

//! Readers of the API, the page and the metrics of a very large table, while probes and DNS clients measure delays.
//!
//! Everything is measured twice: without readers and with them. Both times the table changes again and again, so that the
//! figures differ only by what the readers cost. Another server, which nobody reads, shows what other processes of the
//! machine cost at the same time.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use support::certificates::Identity;
use support::http::get;
use support::objects::{Manifest, mirror};
use support::output::print_line;
use support::server::Server;
use support::standin::{Behavior, StandIn};

use super::floods::harness::{IDENTITY, Listeners};
use super::floods::honest::{Client, Way, is_right};

const NAMESPACES: usize = 500;
/// Services of each namespace.
const SERVICES: usize = 20;
/// Endpoints of each service.
const ENDPOINTS: usize = 10;
/// Time for which delays are measured, without readers and with them.
const DURATION: Duration = Duration::from_secs(20);
/// Pause between two probes, and between two queries.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause between two changes of the table.
const CHANGE_PAUSE: Duration = Duration::from_secs(1);
/// The delay that readers may add to a probe or an answer.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// The memory that all readers together may add, in KiB.
const MAX_MEMORY: u64 = 32 * 1024;
/// Readers that read a KiB in each pause.
const SLOW_READERS: u8 = 30;
/// The priority of readers: that of the thread that serves them. On machines of their own, they would take no CPU time from
/// the server.
const LOW_PRIORITY: i32 = 10;

/// The name of the measurements of the other server.
const OTHER_SERVER: &str = "other server";

/// What is measured for some time.
struct Measured {
    /// By probe or transport.
    delays: BTreeMap<&'static str, Delays>,
    /// The maximum of the server's memory in KiB.
    memory: u64,
}

/// Delays of one kind of request.
#[derive(Debug, Default)]
struct Delays {
    took: Vec<Duration>,
    failed: usize,
}

#[test]
fn readers_delay_neither_probes_nor_answers() {
    let standin = StandIn::start(Behavior::Normal, &objects()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    IDENTITY.write(folder.path());
    let [certificate, key] = Identity::settings(folder.path());
    let flags = ["listen.tls=['127.0.0.1:0']", &certificate, &key];
    let server = Server::ready_of_cluster(&standin.kubeconfig, &flags);
    let other = Server::with_objects(mirror("prod", "db", "east"), &[]);
    let servers = [&server, &other];
    let idle = measure(servers, &standin, |_| {});
    idle.print("no readers");
    let requests = [AtomicU64::new(0), AtomicU64::new(0)];
    let busy = measure(servers, &standin, |done| {
        read_everything(&server, done, &requests)
    });
    busy.print("readers");
    let added = busy.memory.saturating_sub(idle.memory);
    let [all, tables] = requests.map(AtomicU64::into_inner);
    print_line(&format!(
        "{:<28} {all} requests answered, {tables} of them tables; memory {} MiB without readers, {:.1} MiB more with them",
        "",
        idle.memory / 1024,
        added as f64 / 1024.0
    ));
    let of_other = busy.delays[OTHER_SERVER].slowest();
    for (what, delays) in &busy.delays {
        assert_eq!(delays.failed, 0, "{what}");
        assert!(delays.took.len() > 100, "{what}: {}", delays.took.len());
        let (slowest, before) = (delays.slowest(), idle.delays[what].slowest());
        assert!(
            slowest < before.max(of_other) + MAX_DELAY,
            "{what}: {slowest:?}; {before:?} without readers, {of_other:?} of another server"
        );
    }
    assert!(all > 100, "{all}");
    assert!(added < MAX_MEMORY, "{added} KiB");
}

/// 100,000 endpoints, and a service with one.
pub fn objects() -> Vec<Value> {
    let of_clients = mirror("prod", "db", "east").endpoint("db-0", &["198.51.100.1"]);
    let mut objects = Manifest::from(of_clients).0;
    for number in 0..NAMESPACES * SERVICES {
        let (namespace, service) = (number / SERVICES, number % SERVICES);
        let mirror = mirror(
            &format!("team-{namespace}"),
            &format!("db{service}"),
            "east",
        )
        .ports(&[("sql", "TCP", 5432)]);
        objects.push(mirror.service());
        for host in 0..ENDPOINTS {
            let place = number * ENDPOINTS + host;
            let address = format!(
                "10.{}.{}.{}",
                place / 62_500,
                place / 250 % 250,
                place % 250
            );
            objects.push(mirror.endpoint_mirror(&format!("db{service}-{host}"), &[&address]));
        }
    }
    objects
}

/// Measures the delays of probes and of DNS, and the server's memory, while `load` runs. Also measures the delays of probes
/// of another server.
fn measure(
    [server, other]: [&Server; 2],
    standin: &StandIn,
    load: impl FnOnce(&AtomicBool) + Send,
) -> Measured {
    let done = AtomicBool::new(false);
    let done = &done;
    let probe = |server: &Server, path| {
        get(server.address("admin"), path).is_ok_and(|page| page.status == 200)
    };
    thread::scope(|scope| {
        let load = scope.spawn(move || load(done));
        scope.spawn(|| change_until(done, standin));
        let mut measured = Vec::new();
        for (what, server, path) in [
            ("/livez", server, "/livez"),
            ("/readyz", server, "/readyz"),
            (OTHER_SERVER, other, "/livez"),
        ] {
            let ask = move || delays(done, || probe(server, path));
            measured.push((what, scope.spawn(ask)));
        }
        for way in Way::of(Listeners::Encrypted) {
            let ask = move || {
                let mut client = Client::new(server);
                delays(done, || {
                    client.ask(*way).is_ok_and(|reply| is_right(&reply))
                })
            };
            measured.push((way.name(), scope.spawn(ask)));
        }
        let (started, mut memory) = (Instant::now(), 0);
        while started.elapsed() < DURATION {
            memory = memory.max(server.process().memory("VmRSS").unwrap());
            thread::sleep(PAUSE);
        }
        done.store(true, Relaxed);
        let delays = measured
            .into_iter()
            .map(|(what, thread)| (what, thread.join().unwrap()))
            .collect();
        load.join().unwrap();
        Measured { delays, memory }
    })
}

/// Changes the table from time to time: adds an endpoint, and removes it again.
fn change_until(done: &AtomicBool, standin: &StandIn) {
    let mirror = mirror("team-77", "db1", "east").ports(&[("sql", "TCP", 5432)]);
    let endpoint = mirror.endpoint_mirror("db1-more", &["10.250.0.1"]);
    while !done.load(Relaxed) {
        standin.put(&endpoint);
        thread::sleep(CHANGE_PAUSE / 2);
        standin.delete(&endpoint);
        thread::sleep(CHANGE_PAUSE / 2);
    }
}

/// Repeats a request, and measures how long each takes.
fn delays(done: &AtomicBool, mut ask: impl FnMut() -> bool) -> Delays {
    let mut delays = Delays::default();
    while !done.load(Relaxed) {
        let started = Instant::now();
        delays.failed += usize::from(!ask());
        delays.took.push(started.elapsed());
        thread::sleep(PAUSE);
    }
    delays
}

/// Reads everything there is to read, all the time. Counts the answered requests, and the tables among them.
fn read_everything(server: &Server, done: &AtomicBool, [requests, tables]: &[AtomicU64; 2]) {
    let label = "a".repeat(60);
    let long = format!("{label}.{label}.{label}.{}.globl", "b".repeat(40));
    let explain = |name: &str| ("api", format!("/api/v1/explain?name={name}"));
    let paths = [
        explain("db1.team-77.globl"),
        explain("db1.taem-77.global"),
        explain("bd1.team-77.global"),
        explain("esat.db1.team-77.global"),
        explain(&long),
        explain("10.0.77.7"),
        ("api", "/api/v1/status".to_owned()),
        ("api", "/api/v1/endpoints?limit=1000".to_owned()),
        ("api", "/api/v1/problems".to_owned()),
        ("api", "/api/v1/table?limit=1000".to_owned()),
        ("api", "/api/v1/zone?limit=1000".to_owned()),
        ("admin", "/metrics".to_owned()),
        ("admin", "/metrics".to_owned()),
    ];
    thread::scope(|scope| {
        for (listener, path) in &paths {
            scope.spawn(move || {
                setpriority_process(None, LOW_PRIORITY).unwrap();
                let mut answered = 0;
                while !done.load(Relaxed) {
                    let page = get(server.address(listener), path);
                    answered += u64::from(page.is_ok_and(|page| page.status == 200));
                }
                assert!(answered > 0, "{path} was never answered");
                requests.fetch_add(answered, Relaxed);
                if path.contains("table") {
                    tables.fetch_add(answered, Relaxed);
                }
            });
        }
        for number in 0..SLOW_READERS {
            scope.spawn(move || read_slowly(server, number, done));
        }
    });
}

/// Reads the table slowly, from an address with a prefix of its own, again and again.
fn read_slowly(server: &Server, number: u8, done: &AtomicBool) {
    let gzip = match number % 2 {
        0 => "Accept-Encoding: gzip\r\n",
        _ => "",
    };
    let head =
        format!("GET /api/v1/endpoints?limit=1000 HTTP/1.1\r\nHost: localhost\r\n{gzip}\r\n");
    setpriority_process(None, LOW_PRIORITY).unwrap();
    while !done.load(Relaxed) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let own = SocketAddr::from((Ipv4Addr::new(127, 1, number, 1), 0));
        socket.bind(&own.into()).unwrap();
        if socket.connect(&server.address("api").into()).is_err() {
            continue;
        }
        let mut stream = TcpStream::from(socket);
        let mut piece = [0; 1024];
        let mut is_open = stream.write_all(head.as_bytes()).is_ok();
        while is_open && !done.load(Relaxed) {
            thread::sleep(10 * PAUSE);
            is_open = matches!(stream.read(&mut piece), Ok(1..));
        }
    }
}

// === impl Measured ===

impl Measured {
    fn print(&self, what: &str) {
        let delays = self.delays.iter().map(|(what, delays)| {
            let [median, slowest] =
                [delays.median(), delays.slowest()].map(|time| time.as_secs_f64() * 1e3);
            format!("{what} {median:.1} ms median, {slowest:.0} ms maximum")
        });
        print_line(&format!(
            "{what:<28} {}",
            delays.collect::<Vec<_>>().join("; ")
        ));
    }
}

// === impl Delays ===

impl Delays {
    fn slowest(&self) -> Duration {
        self.took.iter().copied().max().unwrap_or_default()
    }

    fn median(&self) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        took.get(took.len() / 2).copied().unwrap_or_default()
    }
}

//! Readers of the API, the page and the metrics of a very large table, while probes and DNS clients measure delays.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use support::http::get;
use support::objects::mirror;
use support::output::print_line;
use support::query::query;
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wire::{Transport, exchange};

const NAMESPACES: usize = 500;
/// Services of each namespace.
const SERVICES: usize = 10;
/// Endpoints of each service.
const ENDPOINTS: usize = 10;
/// Time for which delays are measured, without readers and with them.
const IDLE: Duration = Duration::from_secs(5);
const BUSY: Duration = Duration::from_secs(20);
/// Pause between two probes, and between two queries.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum delay of a probe: half of the time limit of the readiness probe. Without readers on a machine with idle cores,
/// it is a few milliseconds.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum memory of all readers in KiB: the promised 32 MiB, a table that is replaced, and what the allocator keeps.
const MAX_MEMORY: u64 = 64 * 1024;
/// Readers that read a KiB in each pause.
const SLOW_READERS: u8 = 30;

/// Delays of one kind of request.
#[derive(Debug, Default)]
struct Delays {
    took: Vec<Duration>,
    failed: usize,
}

#[test]
#[ignore = "needs minutes: tests/chaos/run"]
fn readers_delay_neither_probes_nor_answers() {
    let server = large_server();
    let (idle, _) = measure(&server, IDLE, |_| {});
    print_delays("no readers", &idle);
    let before = server.process().memory("VmRSS").unwrap();
    let requests = [AtomicU64::new(0), AtomicU64::new(0)];
    let (busy, most) = measure(&server, BUSY, |done| {
        read_everything(&server, done, &requests)
    });
    print_delays("readers", &busy);
    let added = most.saturating_sub(before);
    let [all, tables] = requests.map(AtomicU64::into_inner);
    print_line(&format!(
        "{:<28} {all} requests answered, {tables} of them tables; memory {} MiB before, {} MiB more at most",
        "",
        before / 1024,
        added / 1024
    ));
    for (what, delays) in &busy {
        assert_eq!(delays.failed, 0, "{what}");
        assert!(
            delays.slowest() < MAX_DELAY,
            "{what}: {:?}",
            delays.slowest()
        );
        assert!(delays.took.len() > 100, "{what}: {}", delays.took.len());
    }
    assert!(all > 100, "{all}");
    assert!(added < MAX_MEMORY, "{added} KiB");
}

fn large_server() -> Server {
    let mut objects = Vec::new();
    for number in 0..NAMESPACES * SERVICES {
        let (namespace, service) = (number / SERVICES, number % SERVICES);
        let mirror = mirror(
            &format!("team-{namespace}"),
            &format!("db{service}"),
            "east",
        );
        let mirror = mirror.ports(&[("sql", "TCP", 5432)]);
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
    let standin = StandIn::start(Behavior::Normal, &objects).unwrap();
    // The stand-in ends here. The server goes on with the table that it has.
    Server::ready_of_cluster(&standin.kubeconfig, &[])
}

/// Measures the delays of probes and of DNS while `load` runs, and the maximum of the server's memory.
fn measure(
    server: &Server,
    time: Duration,
    load: impl FnOnce(&AtomicBool) + Send,
) -> (Vec<(&'static str, Delays)>, u64) {
    let done = AtomicBool::new(false);
    let done = &done;
    let packet = query("db1.team-1.global A").0;
    let over = |transport| exchange(server.dns, &packet, transport, Duration::from_secs(5)).is_ok();
    let probe = |path| get(server.address("admin"), path).is_ok_and(|page| page.status == 200);
    thread::scope(|scope| {
        let load = scope.spawn(move || load(done));
        let measured = [
            ("/livez", scope.spawn(|| delays(done, || probe("/livez")))),
            ("/readyz", scope.spawn(|| delays(done, || probe("/readyz")))),
            ("UDP", scope.spawn(|| delays(done, || over(Transport::Udp)))),
            ("TCP", scope.spawn(|| delays(done, || over(Transport::Tcp)))),
        ];
        let (started, mut most) = (Instant::now(), 0);
        while started.elapsed() < time {
            most = most.max(server.process().memory("VmRSS").unwrap());
            thread::sleep(PAUSE);
        }
        done.store(true, Relaxed);
        let measured = measured.map(|(what, thread)| (what, thread.join().unwrap()));
        load.join().unwrap();
        (measured.into(), most)
    })
}

/// Repeats a request, and measures how long each takes.
fn delays(done: &AtomicBool, ask: impl Fn() -> bool) -> Delays {
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
        ("api", "/api/v1/conflicts".to_owned()),
        ("api", "/api/v1/table".to_owned()),
        ("api", "/api/v1/table?output=zone".to_owned()),
        ("admin", "/metrics".to_owned()),
        ("admin", "/metrics".to_owned()),
    ];
    thread::scope(|scope| {
        for (listener, path) in &paths {
            scope.spawn(move || {
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

/// Reads the table slowly, from an address of its own, again and again.
fn read_slowly(server: &Server, number: u8, done: &AtomicBool) {
    let gzip = match number % 2 {
        0 => "Accept-Encoding: gzip\r\n",
        _ => "",
    };
    let head = format!("GET /api/v1/table HTTP/1.1\r\nHost: localhost\r\n{gzip}\r\n");
    while !done.load(Relaxed) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let own = SocketAddr::from((Ipv4Addr::new(127, 0, 1, number), 0));
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

fn print_delays(what: &str, measured: &[(&str, Delays)]) {
    let delays = measured.iter().map(|(what, delays)| {
        let [median, slowest] =
            [delays.median(), delays.slowest()].map(|time| time.as_secs_f64() * 1e3);
        format!("{what} {median:.1} ms median, {slowest:.0} ms maximum")
    });
    print_line(&format!(
        "{what:<28} {}",
        delays.collect::<Vec<_>>().join("; ")
    ));
}

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

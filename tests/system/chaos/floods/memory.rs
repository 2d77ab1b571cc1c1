//! Clients that read nothing, on all listeners of a server in a control group with the memory limit of the chart. They
//! query a name whose answer fills a message. The kernel's memory for TCP counts, too.
//!
//! With version 1 of control groups, the kernel counts that memory apart from the rest, and both are added here. With
//! version 2, the memory of the group contains it.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::id;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;
use support::certificates::{Identity, issue_valid};
use support::commands::{binary, command};
use support::networks::{Network, in_new_network};
use support::objects::{mirror, objects};
use support::output::print_line;
use support::server::{Server, WaitUntil};
use support::settings::add_arguments;
use support::wait::wait_for;
use support::wire::frame;

use super::harness::{Listeners, question};
use super::honest::{Way, ask_once, ask_until};
use super::tls::{self, push};
use super::{attacker, count_ended, in_threads, socket};

/// The memory limit of the chart.
const LIMIT: u64 = 256 << 20;
/// Addresses of the largest answer of type A in a message.
const ADDRESSES: u32 = 4093;
/// Connections from each address: half of the default of `limits.connections`.
const EACH: u32 = 128;
/// Addresses of attackers, each with another prefix. Half of them attack TCP, and half TLS: together they may have
/// all connections of both limits.
const ATTACKERS: u32 = 4;
const DURATION: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(10);

/// A control group with a memory limit. It is removed on drop.
struct Group {
    folder: PathBuf,
    usage: Vec<PathBuf>,
}

// === impl Group ===

impl Group {
    /// Creates a group, in version 1 or 2.
    fn new() -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("global-dns-chaos-{}", id());
        let is_second = root.join("cgroup.controllers").exists();
        let folder = if is_second {
            root.join(name)
        } else {
            root.join("memory").join(name)
        };
        fs::create_dir(&folder).unwrap();
        let write = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        let usage: &[&str] = if is_second {
            write("memory.max", &LIMIT.to_string());
            &["memory.current"]
        } else {
            write("memory.limit_in_bytes", &LIMIT.to_string());
            // Without a limit, the kernel does not count its memory for TCP. This one is never reached.
            write("memory.kmem.tcp.limit_in_bytes", &(4 * LIMIT).to_string());
            &["memory.usage_in_bytes", "memory.kmem.tcp.usage_in_bytes"]
        };
        let usage = usage.iter().map(|file| folder.join(file)).collect();
        Self { folder, usage }
    }

    /// Returns the octets in use: those of the process, and those of the kernel's TCP, if they are counted apart.
    fn usage(&self) -> Vec<u64> {
        let read = |file: &PathBuf| fs::read_to_string(file).unwrap().trim().parse().unwrap();
        self.usage.iter().map(read).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let remove = || fs::remove_dir(&self.folder).ok();
        wait_for("the control group to be empty", remove);
    }
}

fn start(group: &Group) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.json");
    let address = |number: u32| Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 1)) + number);
    let many = mirror("prod", "many", "east").ports(&[("sql", "TCP", 5432)]);
    let many = (0..ADDRESSES).fold(many, |many, number| {
        many.endpoint(&format!("many-{number}"), &[&address(number).to_string()])
    });
    let db = mirror("prod", "db", "east").endpoint("db-0", &["198.51.100.1"]);
    fs::write(&file, objects().with(db).with(many).list()).unwrap();
    issue_valid().write(folder.path());
    // The shell enters the group and becomes the server.
    let mut command = command("sh");
    command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
    command.arg(group.folder.join("cgroup.procs")).arg(binary());
    command.args(["serve", "--listen=127.0.0.1:5353", "--log-format=json"]);
    command.args(["--admin-listen=127.0.0.1:9153", "--api-listen=127.0.0.1:0"]);
    let listeners = [
        "listen.tls=['127.0.0.1:853']",
        "listen.quic=['127.0.0.1:853']",
    ];
    add_arguments(&mut command, &listeners);
    add_arguments(&mut command, &Identity::settings(folder.path()));
    // Attackers have addresses that are not allowed by default.
    add_arguments(
        &mut command,
        &["limits.allow=[0.0.0.0/0]", "--cluster-name=hub", "--file"],
    );
    command.arg(file);
    Server::start_command(folder, command, WaitUntil::Ready)
}

/// Opens a connection of an attacker, whose kernel receives as little as possible.
fn open(to: SocketAddr, number: u32) -> Option<TcpStream> {
    let socket = socket(attacker(number));
    socket.set_recv_buffer_size(1).unwrap();
    socket.connect_timeout(&to.into(), PATIENCE).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    Some(socket.into())
}

/// Keeps all connections of an attacker open, and sends queries over them. Returns the number of connections.
fn attack<S>(
    until: Instant,
    mut open: impl FnMut() -> Option<S>,
    mut send: impl FnMut(&mut S) -> bool,
) -> u64 {
    let mut streams = Vec::new();
    let mut opened = 0;
    while Instant::now() < until {
        streams.retain_mut(&mut send);
        for _ in 0..32.min(EACH as usize - streams.len()) {
            streams.extend(open());
            opened += 1;
        }
    }
    opened
}

/// Attacks the listener that belongs to the number of a thread: TCP or TLS.
fn attack_listener(server: &Server, number: u32, until: Instant) -> u64 {
    let framed = frame(&question("many.prod.global")).repeat(64);
    if number < ATTACKERS / 2 {
        let open = || {
            let stream = open(server.dns, number)?;
            stream.set_nonblocking(true).unwrap();
            Some(stream)
        };
        return attack(until, open, |stream| is_open(stream.write(&framed)));
    }
    let config = tls::config("dot", &TLS13);
    let open = || {
        let stream = open(server.address("tls"), number)?;
        let stream = tls::begin(stream, &config).ok()?;
        stream.sock.set_nonblocking(true).unwrap();
        Some(stream)
    };
    attack(until, open, |stream| push(stream, &framed))
}

/// Returns whether a non-blocking connection is open after a write.
fn is_open(written: io::Result<usize>) -> bool {
    match written {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

#[test]
fn floods_of_slow_readers_do_not_exceed_the_memory_limit() {
    in_new_network(|| {
        let network = Network::of_this_thread();
        network.ip("route add local 96.0.0.0/4 dev lo").unwrap();
        let group = Group::new();
        let mut server = start(&group);
        let before = group.usage();
        let until = Instant::now() + DURATION;
        let done = AtomicBool::new(false);
        let (opened, peak, tallies) = thread::scope(|scope| {
            let ways = Way::of(Listeners::Encrypted);
            let asked: Vec<_> = ways
                .iter()
                .map(|way| (way, scope.spawn(|| ask_until(&done, &server, *way))))
                .collect();
            let peak = scope.spawn(|| {
                let mut peak = vec![0; before.len()];
                while !done.load(Relaxed) {
                    let usage = group.usage();
                    if usage.iter().sum::<u64>() > peak.iter().sum() {
                        peak = usage;
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                peak
            });
            let [opened] = in_threads(ATTACKERS, |number| {
                [attack_listener(&server, number, until)]
            });
            done.store(true, Relaxed);
            let asked = asked
                .into_iter()
                .map(|(way, asked)| (*way, asked.join().unwrap()));
            (opened, peak.join().unwrap(), asked.collect::<Vec<_>>())
        });
        let mebibytes =
            |usage: &[u64]| -> Vec<u64> { usage.iter().map(|octets| octets >> 20).collect() };
        let ended = ["slow", "replaced"].map(|reason| count_ended(&server, reason));
        print_line(&format!(
            "memory limit of 256 MiB      {opened} connections of slow readers, {ended:?} closed as slow and \
             replaced; MiB in use {:?} before, {:?} maximum",
            mebibytes(&before),
            mebibytes(&peak)
        ));
        for (way, tally) in &tallies {
            print_line(&format!("{:<28} honest client: {} {tally}", "", way.name()));
        }
        assert!(!server.has_ended());
        assert!(ended[0] > 0, "no connection was slow");
        assert!(peak.iter().sum::<u64>() < LIMIT, "{peak:?}");
        for (way, tally) in tallies {
            assert_eq!((tally.failed, tally.wrong), (0, 0), "{way:?}: {tally}");
        }
        for way in Way::of(Listeners::Encrypted) {
            ask_once(&server, *way);
        }
        server.signal("KILL");
        let _ = server.end();
    });
}

//! UDP on hosts with several addresses: a node, where the server has its default listeners as on the host's network, and
//! clients at the other ends of cables. Each test has networks of its own, which needs root.

mod addresses;
mod path_mtu;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use support::commands::global_dns;
use support::networks::{Network, in_a_network_of_its_own};
use support::objects::{mirror, objects};
use support::server::{Await, Server};
use support::wait::{PATIENCE, wait_for};

/// `db.prod.global` has so many addresses: 1,400 octets of records, which a datagram of Ethernet holds.
const ENDPOINTS: usize = 87;
const NAME: &str = "db.prod.global. A";
/// After this time without a reply a client asks again.
const AGAIN: Duration = Duration::from_secs(2);
/// The port of the default listeners.
const PORT: u16 = 5353;

/// The node's addresses on its first cable. The kernel itself would choose the first of a family for all replies.
const CABLE: [&str; 6] = [
    "192.0.2.10",
    "192.0.2.11",
    "192.0.2.12",
    "2001:db8::10",
    "2001:db8::11",
    "2001:db8::12",
];
/// Its other addresses: a load balancer's, and that of a cache on the node.
const LOOPBACK: [&str; 3] = ["198.51.100.1", "169.254.20.10", "2001:db8:1::1"];
/// Its address on every cable.
const LINK_LOCAL: &str = "fe80::10";

/// A node in the network of this thread, and its clients.
struct Networks {
    node: Network,
    /// On the node's `eth0`: 192.0.2.1, 2001:db8::1 and fe80::1.
    client: Network,
    /// On its `eth1`: fe80::1, too.
    neighbor: Network,
}

/// Runs a test in networks of its own.
fn in_networks(test: impl FnOnce(&Networks) + Send) {
    in_a_network_of_its_own(|| {
        let networks = Networks {
            node: Network::of_this_thread(),
            client: Network::new().unwrap(),
            neighbor: Network::new().unwrap(),
        };
        networks.set_up();
        test(&networks);
    });
}

/// Serves on the default listeners.
fn serve(flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    let db = (1..=ENDPOINTS).fold(mirror("prod", "db", "east"), |db, host| {
        db.endpoint(&format!("db-{host}"), &[&format!("10.96.1.{host}")])
    });
    fs::write(&file, objects().with(db).text()).unwrap();
    let mut command = global_dns(&["serve", "--cluster-name=hub", "--log-format=json"]);
    command.args(["--admin-listen=127.0.0.1:0", "--api-listen=127.0.0.1:0"]);
    command.arg("--file").arg(&file).args(flags);
    Server::start_command(folder, command, Await::Ready)
}

/// A socket that takes replies from anywhere.
fn bound(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_broadcast(true).unwrap();
    socket
}

/// A query with this identifier.
fn query(id: u16) -> Vec<u8> {
    support::query::query(&format!("{NAME} +bufsize=4096"))
        .with_id(id)
        .0
}

/// Receives a reply; returns its identifier, its length, and where it came from.
fn receive(socket: &UdpSocket) -> (u16, usize, SocketAddr) {
    let mut reply = [0; 65_535];
    let received = socket.recv_from(&mut reply);
    let (length, from) = received.unwrap_or_else(|error| panic!("no reply: {error}"));
    (u16::from_be_bytes([reply[0], reply[1]]), length, from)
}

/// Asks until there is a reply, as clients do, and returns where it came from.
fn replier(socket: &UdpSocket, asked: SocketAddr) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1000);
    socket.set_read_timeout(Some(AGAIN)).unwrap();
    let from = wait_for(&format!("a reply of {asked}"), || {
        let id = NEXT.fetch_add(1, Relaxed);
        socket.send_to(&query(id), asked).ok()?;
        let mut reply = [0; 65_535];
        loop {
            let (_, from) = socket.recv_from(&mut reply).ok()?;
            // Others are late ones.
            if reply[..2] == id.to_be_bytes() {
                return Some(from);
            }
        }
    });
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    from
}

/// The DNS port of an address.
fn dns(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), PORT)
}

/// The same of the node's link-local address, for the thread's end of the cable that has this name.
fn link_local(interface: &str) -> SocketAddr {
    let index = if_nametoindex(interface).unwrap();
    format!("[{LINK_LOCAL}%{index}]:{PORT}").parse().unwrap()
}

/// The counters of the network of this thread: `Ip:FragCreates`, `Ip6FragCreates`.
fn counters() -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    // One line of names, and one of values, which may be -1 where they are settings.
    let text = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks(2) {
        let (names, values) = (pair[0].split(' '), pair[1].split(' '));
        let group = pair[0].split(' ').next().unwrap();
        for (name, value) in names.zip(values).skip(1) {
            let value = value.parse().unwrap_or_default();
            counters.insert(format!("{group}{name}"), value);
        }
    }
    for line in fs::read_to_string("/proc/thread-self/net/snmp6")
        .unwrap()
        .lines()
    {
        let (name, value) = line.split_once(char::is_whitespace).unwrap();
        counters.insert(name.to_owned(), value.trim().parse().unwrap());
    }
    counters
}

// === impl Networks ===

impl Networks {
    fn set_up(&self) {
        let Self {
            node,
            client,
            neighbor,
        } = self;
        node.connect("eth0", client, "eth0").unwrap();
        node.connect("eth1", neighbor, "eth0").unwrap();
        // Without link-local addresses but those that are given below.
        for (network, interface) in [
            (node, "eth0"),
            (node, "eth1"),
            (client, "eth0"),
            (neighbor, "eth0"),
        ] {
            ip(network, &format!("link set {interface} addrgenmode none"));
            ip(network, &format!("link set {interface} up"));
        }
        for address in CABLE {
            add(node, address, "eth0");
        }
        for address in LOOPBACK {
            add(node, address, "lo");
        }
        for interface in ["eth0", "eth1"] {
            add(node, LINK_LOCAL, interface);
        }
        for address in ["192.0.2.1", "2001:db8::1", "fe80::1"] {
            add(client, address, "eth0");
        }
        add(neighbor, "fe80::1", "eth0");
        // Each is the other's router.
        for (network, v4, v6) in [
            (node, "192.0.2.1", "2001:db8::1"),
            (client, CABLE[0], CABLE[3]),
        ] {
            ip(network, &format!("route add default via {v4}"));
            ip(network, &format!("-6 route add default via {v6}"));
        }
    }
}

fn ip(network: &Network, arguments: &str) {
    network.ip(arguments).unwrap();
}

/// Adds an address that can be used at once.
fn add(network: &Network, address: &str, interface: &str) {
    let length = match (interface, address.contains(':')) {
        ("lo", false) => 32,
        ("lo", true) => 128,
        (_, false) => 24,
        (_, true) => 64,
    };
    let nodad = if address.contains(':') { "nodad" } else { "" };
    ip(
        network,
        &format!("address add {address}/{length} dev {interface} {nodad}"),
    );
}

//! UDP on a node with several addresses. The server has its default listeners, and clients are connected by veth pairs.
//! Each test has its own networks, which requires root.

mod addresses;

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use support::commands::global_dns;
use support::networks::{Network, in_new_network};
use support::objects::{mirror, objects};
use support::server::{Server, WaitUntil};
use support::settings::add_arguments;
use support::wait::{TIMEOUT, wait_for};

/// Number of addresses of `db.prod.global`. Their 1,400 octets of records fit into an Ethernet frame.
const ENDPOINTS: usize = 87;
const NAME: &str = "db.prod.global. A";
/// Time without a reply after which a client repeats its query.
const RETRY: Duration = Duration::from_secs(2);
/// The port of the default listeners.
const PORT: u16 = 5353;

/// Addresses of the node on its first interface. By default, the kernel chooses the first one of a family for all
/// replies.
const INTERFACE: [&str; 6] = [
    "192.0.2.10",
    "192.0.2.11",
    "192.0.2.12",
    "2001:db8::10",
    "2001:db8::11",
    "2001:db8::12",
];
/// Other addresses of the node: those of a load balancer and of a node-local cache.
const LOOPBACK: [&str; 3] = ["198.51.100.1", "169.254.20.10", "2001:db8:1::1"];
/// Address of the node on every interface.
const LINK_LOCAL: &str = "fe80::10";

/// A node in the network of the current thread, and its clients.
struct Networks {
    node: Network,
    /// Client on the node's `eth0`: 192.0.2.1, 2001:db8::1 and fe80::1.
    client: Network,
    /// Client on the node's `eth1`: also fe80::1.
    neighbor: Network,
}

/// Runs a test in new networks.
fn in_networks(test: impl FnOnce(&Networks) + Send) {
    in_new_network(|| {
        let networks = Networks {
            node: Network::of_this_thread(),
            client: Network::new().unwrap(),
            neighbor: Network::new().unwrap(),
        };
        networks.set_up();
        test(&networks);
    });
}

/// Starts a server with the default listeners.
fn serve(flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    let db = (1..=ENDPOINTS).fold(mirror("prod", "db", "east"), |db, host| {
        db.endpoint(&format!("db-{host}"), &[&format!("10.96.1.{host}")])
    });
    fs::write(&file, objects().with(db).text()).unwrap();
    let mut command = global_dns(&["serve", "--cluster-name=hub", "--log-format=json"]);
    command.args(["--admin-listen=127.0.0.1:0", "--api-listen=127.0.0.1:0"]);
    // The clients have addresses for documentation.
    add_arguments(&mut command, &["limits.allow=[0.0.0.0/0, '::/0']"]);
    command.arg("--file").arg(&file);
    add_arguments(&mut command, flags);
    Server::start_command(folder, command, WaitUntil::Ready)
}

/// Returns a socket that receives replies from any address.
fn bound(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.set_broadcast(true).unwrap();
    socket
}

/// Returns a query with this ID.
fn query(id: u16) -> Vec<u8> {
    support::query::query(&format!("{NAME} +bufsize=4096"))
        .with_id(id)
        .0
}

/// Receives a reply. Returns its ID, its length and its source address.
fn receive(socket: &UdpSocket) -> (u16, usize, SocketAddr) {
    let mut reply = [0; 65_535];
    let received = socket.recv_from(&mut reply);
    let (length, from) = received.unwrap_or_else(|error| panic!("no reply: {error}"));
    (u16::from_be_bytes([reply[0], reply[1]]), length, from)
}

/// Queries until a reply comes, like a client. Returns its source address.
fn replier(socket: &UdpSocket, asked: SocketAddr) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1000);
    socket.set_read_timeout(Some(RETRY)).unwrap();
    let from = wait_for(&format!("a reply from {asked}"), || {
        let id = NEXT.fetch_add(1, Relaxed);
        socket.send_to(&query(id), asked).ok()?;
        let mut reply = [0; 65_535];
        loop {
            let (_, from) = socket.recv_from(&mut reply).ok()?;
            // Other IDs belong to late replies.
            if reply[..2] == id.to_be_bytes() {
                return Some(from);
            }
        }
    });
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    from
}

/// Returns an address with the DNS port of the server.
fn dns(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), PORT)
}

/// Returns the node's link-local address with the DNS port, with the interface as its scope.
fn link_local(interface: &str) -> SocketAddr {
    let index = if_nametoindex(interface).unwrap();
    format!("[{LINK_LOCAL}%{index}]:{PORT}").parse().unwrap()
}

/// Returns the counters of the current network: `Ip:InDelivers`, `Ip6InDelivers`.
fn counters() -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    // A line of names and a line of values. Values of settings can be -1.
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
        // No link-local addresses other than those below.
        for (network, interface) in [
            (node, "eth0"),
            (node, "eth1"),
            (client, "eth0"),
            (neighbor, "eth0"),
        ] {
            ip(network, &format!("link set {interface} addrgenmode none"));
            ip(network, &format!("link set {interface} up"));
        }
        for address in INTERFACE {
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
        // Each side is the router of the other one.
        for (network, v4, v6) in [
            (node, "192.0.2.1", "2001:db8::1"),
            (client, INTERFACE[0], INTERFACE[3]),
        ] {
            ip(network, &format!("route add default via {v4}"));
            ip(network, &format!("-6 route add default via {v6}"));
        }
    }
}

fn ip(network: &Network, arguments: &str) {
    network.ip(arguments).unwrap();
}

/// Adds an address without duplicate address detection, so that it is usable at once.
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

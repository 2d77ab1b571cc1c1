//! Source addresses of replies: the destination address of the query (RFC 2181 section 4.1).

use std::collections::BTreeMap;
use std::fs;
use std::mem::take;
use std::net::{SocketAddr, UdpSocket};

use support::server::Server;
use support::wait::wait_for;

use super::{
    INTERFACE, LOOPBACK, Networks, PORT, add, bound, counters, dns, in_networks, ip, link_local,
    query, receive, replier, serve,
};

/// A client's socket and the addresses that it queries.
struct Client {
    socket: UdpSocket,
    asks: Vec<SocketAddr>,
    /// Queried addresses that the node loses before it replies.
    loses: Vec<SocketAddr>,
}

#[test]
fn replies_have_the_queried_source_address() {
    in_networks(|networks| {
        let _server = serve(&[]);
        for client in clients(networks) {
            for asked in client.asks {
                assert_eq!(replier(&client.socket, asked), asked);
            }
        }
    });
}

#[test]
fn replies_in_one_batch_have_the_queried_source_addresses() {
    in_networks(|networks| {
        for workers in ["limits.udpWorkers=1", "limits.udpWorkers=2"] {
            let server = serve(&[workers]);
            ask_at_once(&server, &clients(networks), 6, || ());
        }
    });
}

/// Port 5353 is that of multicast DNS (RFC 6762), and many servers may receive such a query.
#[test]
fn multicast_and_broadcast_queries_get_no_reply() {
    in_networks(|networks| {
        let server = serve(&[]);
        let ask = || {
            let host = link_local("eth0");
            let SocketAddr::V6(mut group) = host else {
                panic!("{host} is not an IPv6 address")
            };
            group.set_ip("ff02::1".parse().unwrap());
            let (v4, v6) = (bound("0.0.0.0:0"), bound("[::]:0"));
            v6.send_to(&query(1), group).unwrap();
            v4.send_to(&query(1), dns("192.0.2.255")).unwrap();
            // The only replies are those to the host, which are sent later.
            assert_eq!(replier(&v6, host), host);
            assert_eq!(replier(&v4, dns(INTERFACE[0])), dns(INTERFACE[0]));
        };
        networks.client.enter(ask).unwrap();
        assert_eq!(server.metric("global_dns_dropped_requests_total"), 2.0);
    });
}

/// A route makes all addresses of a prefix local, as those of a load balancer.
#[test]
fn replies_leave_from_addresses_that_a_route_makes_local() {
    in_networks(|networks| {
        ip(&networks.node, "route add local 203.0.113.0/24 dev lo");
        ip(&networks.node, "-6 route add local 2001:db8:a::/64 dev lo");
        let _server = serve(&[]);
        for (from, asked) in [("0.0.0.0:0", "203.0.113.7"), ("[::]:0", "2001:db8:a::7")] {
            let asked = dns(asked);
            assert_eq!(replier(&bound(from), asked), asked);
        }
    });
}

/// The host loses an address and an interface between queries and replies. The reply from a removed IPv6 address is sent.
#[test]
fn reply_from_a_removed_address_does_not_delay_other_replies() {
    in_networks(|networks| {
        let server = serve(&["limits.udpWorkers=1"]);
        let gone = INTERFACE[1];
        let is_gone = |asked: &SocketAddr| asked.ip().to_canonical() == dns(gone).ip();
        let mut clients = clients(networks);
        for client in &mut clients {
            (client.loses, client.asks) = take(&mut client.asks).into_iter().partition(is_gone);
        }
        // The last one is on the removed interface.
        let neighbor = clients.last_mut().unwrap();
        neighbor.loses.append(&mut neighbor.asks);
        let lost = clients
            .iter()
            .map(|client| client.loses.len())
            .sum::<usize>();
        let rounds = 5;
        ask_at_once(&server, &clients, rounds, || {
            ip(&networks.node, &format!("address del {gone}/24 dev eth0"));
            ip(&networks.node, "link del eth1");
        });
        wait_for("every lost reply to be counted", || {
            let unsent = server.metric("global_dns_unsent_responses_total");
            (unsent == (rounds * lost) as f64).then_some(())
        });
        // A restored address works again.
        add(&networks.node, gone, "eth0");
        clients.pop();
        for client in &clients {
            for asked in client.asks.iter().chain(&client.loses) {
                assert_eq!(replier(&client.socket, *asked), *asked);
            }
        }
    });
}

/// Like kube-proxy: a reply from another address than the queried one would not be translated back.
#[test]
fn replies_pass_network_address_translation() {
    in_networks(|networks| {
        let _server = serve(&[]);
        let (v4, v6) = (INTERFACE[2], INTERFACE[5]);
        let translate = format!(
            "ip daddr 10.96.0.53 udp dport 53 dnat ip to {v4}:{PORT}
             ip6 daddr fd00:96::53 udp dport 53 dnat ip6 to [{v6}]:{PORT}"
        );
        let chain =
            |hook| format!("chain {hook} {{ type nat hook {hook} priority -100\n {translate}\n }}");
        let chains = ["prerouting", "output"].map(chain).join("\n");
        let table = format!("table inet kube-proxy {{\n {chains}\n }}");
        networks.node.nft(&table).unwrap();
        let services = ["10.96.0.53:53", "[fd00:96::53]:53"].map(|a| a.parse().unwrap());
        let ask = || {
            for (socket, service) in ["0.0.0.0:0", "[::]:0"].map(bound).iter().zip(services) {
                assert_eq!(replier(socket, service), service);
            }
        };
        networks.client.enter(ask).unwrap();
        ask(); // from the node itself
    });
}

/// Returns clients for every address of the node in both families, on its interfaces and on the node. The last one is
/// on the neighbor.
fn clients(networks: &Networks) -> Vec<Client> {
    let own: Vec<SocketAddr> = INTERFACE.iter().chain(&LOOPBACK).map(|a| dns(a)).collect();
    let (v4, v6): (Vec<_>, Vec<_>) = own.into_iter().partition(SocketAddr::is_ipv4);
    let client = |from: &str, asks: &[SocketAddr]| Client {
        socket: bound(from),
        asks: asks.to_vec(),
        loses: Vec::new(),
    };
    // IPv4 addresses in the form of a dual-stack socket: `::ffff:192.0.2.11`.
    let mapped = v4.iter().map(|address| match address {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        SocketAddr::V6(_) => *address,
    });
    let mapped: Vec<SocketAddr> = mapped.collect();
    let far = networks.client.enter(|| {
        let link_local = [link_local("eth0")];
        [
            client("0.0.0.0:0", &v4),
            client("[::]:0", &v6),
            client("[::]:0", &mapped),
            client("[::]:0", &link_local),
            client("[2001:db8::1]:0", &link_local),
        ]
    });
    let here = ["127.0.0.1", "127.0.0.2", "127.8.8.8"].map(dns);
    let near = [
        client("0.0.0.0:0", &[&v4[..], &here].concat()),
        client("[::]:0", &[&v6[..], &[dns("::1")]].concat()),
    ];
    let neighbor = networks
        .neighbor
        .enter(|| client("[::]:0", &[link_local("eth0")]));
    let mut clients = Vec::from(far.unwrap());
    clients.extend(near);
    clients.push(neighbor.unwrap());
    clients
}

/// Stops the server, sends the queries of all clients so that it receives them in batches, and checks the source
/// addresses of the replies. `meanwhile` runs while the server is stopped.
fn ask_at_once(server: &Server, clients: &[Client], rounds: usize, meanwhile: impl FnOnce()) {
    // Resolves all neighbors first, so that queries arrive in the order in which they are sent.
    for client in clients {
        for asked in client.asks.iter().chain(&client.loses) {
            replier(&client.socket, *asked);
        }
    }
    stop(server);
    let delivered = || counters()["Ip:InDelivers"] + counters()["Ip6InDelivers"];
    let before = delivered();
    let mut expected = vec![BTreeMap::new(); clients.len()];
    let mut sent = 0;
    for _ in 0..rounds {
        for (client, expected) in clients.iter().zip(&mut expected) {
            let all = client.asks.iter().chain(&client.loses);
            for (number, asked) in all.enumerate() {
                sent += 1;
                client.socket.send_to(&query(sent), asked).unwrap();
                if number < client.asks.len() {
                    expected.insert(sent, *asked);
                }
            }
        }
    }
    wait_for("the queries to be in the queues", || {
        (delivered() >= before + u64::from(sent)).then_some(())
    });
    meanwhile();
    server.signal("CONT");
    for (client, expected) in clients.iter().zip(&expected) {
        let replies = expected.iter().map(|_| receive(&client.socket));
        let replies: BTreeMap<u16, SocketAddr> = replies.map(|(id, _, from)| (id, from)).collect();
        assert_eq!(replies, *expected);
    }
}

/// Stops all threads of a server.
fn stop(server: &Server) {
    server.signal("STOP");
    let threads = server.process().proc("task");
    wait_for("the server to stop", || {
        let mut threads = fs::read_dir(&threads).unwrap();
        let is_stopped = |stat: String| stat.rsplit_once(") ").unwrap().1.starts_with('T');
        let all = threads.all(|thread| {
            let stat = thread.unwrap().path().join("stat");
            is_stopped(fs::read_to_string(stat).unwrap())
        });
        all.then_some(())
    });
}

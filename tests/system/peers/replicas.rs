//! A CoreDNS in front of two replicas with one address, of which one has no table. It answers every query, because a replica
//! without a table refuses it: CoreDNS then tries again at once.

use std::net::{Ipv4Addr, SocketAddr};

use support::networks::{Network, in_new_network};
use support::objects::{Mirror, mirror};
use support::ports::free_port;
use support::server::Server;
use support::wire::{Transport, ask};

use super::serve;
use super::sizes::coredns;

const QUERIES: usize = 100;
/// The address of the replicas, as that of a Service.
const SERVICE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 96, 0, 53)), 53);

#[test]
fn replica_without_a_table_costs_no_answer() {
    in_new_network(|| {
        let endpoint = |mirror: Mirror, number: usize| {
            mirror.endpoint(&format!("db-{number}"), &[&format!("10.96.1.{number}")])
        };
        let db = (0..2 * QUERIES).fold(mirror("prod", "db", "east"), endpoint);
        let ready = serve(db, &[]);
        let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let waiting = Server::without_table(nobody, &[]);
        let network = Network::of_this_thread();
        network.ip("route add local 10.96.0.53 dev lo").unwrap();
        let [first, second] = [&ready, &waiting].map(|server| server.dns.port());
        // Each flow goes to the next replica.
        let rules = format!(
            "table ip service {{\n chain output {{\n type nat hook output priority -100\n ip daddr {} meta l4proto {{ tcp, udp }} \
             th dport 53 dnat to 127.0.0.1 : numgen inc mod 2 map {{ 0 : {first}, 1 : {second} }}\n }}\n}}",
            SERVICE.ip()
        );
        network.nft(&rules).unwrap();
        for (options, numbers) in [("", 0..QUERIES), ("force_tcp", QUERIES..2 * QUERIES)] {
            let front = coredns::start(SERVICE, options);
            for number in numbers {
                let name = format!("db-{number}.east.db.prod.global. A");
                let reply = ask(front.address, &name, Transport::Udp);
                assert_eq!(reply.data(), [format!("10.96.1.{number}")], "{options}");
            }
        }
    });
}

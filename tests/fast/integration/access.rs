//! Access control: `--allow`.

use support::certificates::issue_valid;
use support::encrypted::serve;
use support::objects::{Manifest, mirror, objects};
use support::query::query;
use support::reply::Reply;
use support::server::Server;
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange};

const NAME: &str = "db.prod.global A";

fn sample() -> Manifest {
    let db = (0..20).fold(mirror("prod", "db", "east"), |db, host| {
        db.endpoint(&format!("db-{host}"), &[&format!("192.0.2.{host}")])
    });
    objects().with(db)
}

fn packet() -> Vec<u8> {
    query(&format!("{NAME} +edns")).0
}

#[test]
fn disallowed_client_is_refused_on_every_transport() {
    let issued = issue_valid();
    let server = serve(sample(), &issued, &["--allow=192.0.2.0/24,2001:db8::/32"]);
    let packet = packet();
    let ask = |over| exchange(server.dns, &packet, over, TIMEOUT).unwrap();
    let tls = server.address("tls");
    for (over, reply) in [
        ("UDP", ask(Transport::Udp)),
        ("TCP", ask(Transport::Tcp)),
        ("TLS", issued.ask_tls(tls, &packet).unwrap()),
    ] {
        assert_eq!(Reply::read(&reply).unwrap().outcome(), "REFUSED", "{over}");
        // The reply is the query plus option 15 with code 18, Prohibited.
        assert!(reply.ends_with(&[0, 15, 0, 2, 0, 18]), "{over}");
        assert_eq!(reply.len(), packet.len() + 6, "{over}");
    }
    let problem = server.api("/api/v1/problems")["problems"]
        .as_array()
        .unwrap()
        .iter()
        .find(|problem| problem["kind"] == "refused-client")
        .cloned()
        .unwrap();
    assert_eq!(problem["detail"], "127.0.0.0/24");
    assert_eq!(problem["level"], "error");
}

#[test]
fn allowed_client_is_answered() {
    let server = Server::with_objects(sample(), &["--allow=192.0.2.0/24", "--allow=127.0.0.0/8"]);
    for over in [Transport::Udp, Transport::Tcp] {
        assert_eq!(server.ask(NAME, over).answers.len(), 20);
    }
}

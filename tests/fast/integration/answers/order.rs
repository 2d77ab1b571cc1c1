//! `answers.order`: the order of records. The set is always complete.

use std::collections::BTreeSet;

use support::objects::{Manifest, local, mirror, objects};
use support::reply::{Record, Reply};
use support::server::Server;
use support::wire::Transport;

fn sample() -> Manifest {
    objects()
        .with(
            mirror("prod", "db", "east")
                .endpoint("db-0", &["10.96.1.1", "2001:db8::1"])
                .endpoint("db-1", &["10.96.1.2", "2001:db8::2"]),
        )
        .with(
            local("prod", "db")
                .endpoint(Some("db-0"), "192.0.2.1", true)
                .endpoint(Some("db-1"), "192.0.2.2", true)
                .endpoint(Some("db-0"), "2001:db8::3", true),
        )
}

const NAMES: [(&str, usize); 4] = [
    ("db.prod.global. A", 4),
    ("db.prod.global. AAAA", 3),
    ("db.prod.global. SRV", 4),
    ("_sql._tcp.db.global. SRV", 4),
];

/// Queries repeatedly, alternating between both transports. Fails if an answer is incomplete.
fn replies(server: &Server, name: &str, records: usize) -> Vec<Reply> {
    let overs = [Transport::Udp, Transport::Tcp]
        .into_iter()
        .cycle()
        .take(60);
    let replies: Vec<Reply> = overs.map(|over| server.ask(name, over)).collect();
    for reply in &replies {
        assert_eq!(reply.data_set().len(), records, "{name}");
        assert_eq!(reply.data_set(), replies[0].data_set(), "{name}");
    }
    replies
}

fn firsts(replies: &[Reply]) -> BTreeSet<&Record> {
    replies.iter().map(|reply| &reply.answers[0]).collect()
}

#[test]
fn rotate_starts_answers_with_every_record() {
    let server = Server::with_objects(sample(), &["--cluster-name=hub"]);
    for (name, records) in NAMES {
        let replies = replies(&server, name, records);
        // A record is never first in sixty queries with a probability below one in a million.
        assert_eq!(firsts(&replies).len(), records, "{name}");
        // The other records follow in the order of the table.
        let orders: BTreeSet<&Vec<Record>> = replies.iter().map(|reply| &reply.answers).collect();
        assert_eq!(orders.len(), records, "{name}");
    }
}

#[test]
fn local_first_rotates_both_parts() {
    // `hub` sorts after `east`, so only the rule puts it first.
    let server = Server::with_objects(
        sample(),
        &["--cluster-name=hub", "answers.order=local-first"],
    );
    let local = BTreeSet::from(["192.0.2.1", "192.0.2.2"]);
    let replies = replies(&server, "db.prod.global. A", 4);
    let mut orders = BTreeSet::new();
    for reply in &replies {
        assert_eq!(BTreeSet::from_iter(reply.data().drain(..2)), local);
        orders.insert(reply.answers.clone());
    }
    assert_eq!(firsts(&replies).len(), 2);
    let remote: BTreeSet<&Record> = replies.iter().map(|reply| &reply.answers[2]).collect();
    assert_eq!(remote.len(), 2);
    assert_eq!(orders.len(), 4, "the parts rotate independently");
}

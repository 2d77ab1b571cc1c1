//! RFC 2782: SRV.

use support::objects::members;
use support::query::{query, wire_name};
use support::wire::Transport;

use crate::conformance::cases::decode;
use crate::conformance::servers::{serve_objects, serve_sample};

/// Each record has 18 octets plus its target, which gives the number of records in a message of 65,535 octets.
#[test]
fn srv_reply_above_65535_octets_is_truncated_over_tcp() {
    let octets = |count: usize| {
        let target = |n: usize| wire_name(&format!("h-{n}.hub.s{count}.prod.global.")).len();
        let question = wire_name(&format!("s{count}.prod.global.")).len() + 4;
        let records: usize = (1..=count).map(|n| 18 + target(n)).sum();
        12 + question + records + 11
    };
    let most = (1000..9999).take_while(|count| octets(*count) <= 65_535);
    let most = most.last().unwrap();
    assert_eq!(most, 1387);
    let server = serve_objects(members(&[most, most + 1]), &[]);
    for (count, is_truncated) in [(most, false), (most + 1, true)] {
        let question = query(&format!("s{count}.prod.global. SRV +edns"));
        let reply = server.send(&question, Transport::Tcp).unwrap();
        assert_eq!(reply[2] & 0x02 != 0, is_truncated, "{count}");
        let message = decode(&reply);
        // The target of the record that does not fit may be shorter than others.
        let least = most - usize::from(is_truncated);
        assert!((least..=most).contains(&message.answers.len()));
        assert!(message.opt.is_some());
        // The address of one target fits.
        let additional = if is_truncated { 0 } else { 1 };
        assert_eq!(message.additional.len(), additional);
        if !is_truncated {
            assert_eq!(reply.len(), octets(count) + 16);
        }
    }
}

#[test]
fn srv_targets_are_not_compressed() {
    let server = serve_sample();
    let question = query("_http._tcp.west.db.prod.global. SRV");
    let reply = server.send(&question, Transport::Udp).unwrap();
    let record = &reply[question.0.len()..];
    let target = wire_name("db-0.west.db.prod.global.");
    assert_eq!(record[..2], [0xc0, 12], "the owner name must be compressed");
    assert_eq!(
        usize::from(u16::from_be_bytes([record[10], record[11]])),
        6 + target.len()
    );
    assert_eq!(record[18..18 + target.len()], target);
}

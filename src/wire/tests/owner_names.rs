//! The one table of owner names, which tests of every layer read, from objects to octets.

use support::names::{cases, sample};
use support::query::query;
use support::reply::Reply;

use super::*;
use crate::zone::{Zone, ZoneKind, Zones};

/// The zone as the sample's name server has it.
fn settings_of_the_table() -> Settings {
    let addresses = ["192.0.2.53", "2001:db8::53"].map(|ip| ip.parse().unwrap());
    Settings {
        zones: Zones::new(vec![Zone {
            name: "global".parse().unwrap(),
            ttl: 5,
            negative_ttl: 5,
            ns_addresses: addresses.to_vec(),
            kind: ZoneKind::Forward,
        }]),
        ..settings()
    }
}

#[test]
fn every_owner_name_answers_what_the_table_says() {
    let (settings, now) = (settings_of_the_table(), published(table(&sample().0)));
    let arrival = Arrival {
        over: Transport::Tcp,
        ..ARRIVAL
    };
    let mut differences = Vec::new();
    for case in cases() {
        let packet = query(&case.question()).0;
        let query = parse(&packet);
        let reply = respond(&settings, &now, &query, &arrival).unwrap();
        let mut out = vec![0; 65_535];
        let length = write(&reply, &query, &packet, &mut out).length;
        let reply = Reply::read(&out[..length]).unwrap();
        differences.extend(case.difference(&reply));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

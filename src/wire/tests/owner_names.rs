//! Checks the shared table of owner names from objects to octets. Tests of other layers use the same table.

use crate::testing::support::names::{cases, sample};
use crate::testing::support::query::query;
use crate::testing::support::reply::Reply;

use super::*;
use crate::table::Grammar;
use crate::zone::{Zone, Zones};

/// Settings with the name server addresses of the sample.
fn settings_of_the_sample() -> ResponseSettings {
    let addresses = ["192.0.2.53", "2001:db8::53"].map(|ip| ip.parse().unwrap());
    ResponseSettings {
        zones: Zones::new(vec![Zone {
            name: "global".parse().unwrap(),
            ttl: 5,
            ns_addresses: addresses.to_vec(),
            grammar: Grammar::Global,
        }]),
        ..settings()
    }
}

#[test]
fn every_owner_name_matches_the_shared_table() {
    let (settings, now) = (settings_of_the_sample(), published(table(&sample().0)));
    let context = QueryContext {
        transport: Transport::Tcp,
        ..CONTEXT
    };
    let mut differences = Vec::new();
    for case in cases() {
        let packet = query(&case.question()).0;
        let query = parse(&packet);
        let reply = respond(&settings, &now, &query, &context).unwrap();
        let mut out = vec![0; 65_535];
        let length = write(&reply, &query, &packet, &mut out).length;
        let reply = Reply::read(&out[..length]).unwrap();
        differences.extend(case.difference(&reply));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

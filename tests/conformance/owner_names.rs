//! Owner names and their records: RFC 1034 sections 3.6 and 4.3.2, RFC 2308 section 2, RFC 2782, RFC 8020, RFC 8482, and
//! section 2.4 of the specification of Kubernetes. What each name answers is in the table that all layers read.

use std::collections::BTreeSet;

use support::names::{Answer, Case, cases};

use crate::cases::{Expect, answer, check_with_edns_and_without, nodata, nxdomain, refused};
use crate::servers::sample;

#[test]
fn every_name_owns_what_the_table_says() {
    let all = cases();
    let questions: Vec<String> = all.iter().map(Case::question).collect();
    let asked = questions.iter().zip(&all);
    let asked = asked.map(|(asked, case)| (asked.as_str(), expected(case, &all)));
    check_with_edns_and_without(&sample(), &asked.collect::<Vec<_>>());
}

/// The whole reply; addresses of targets, which the table has too, are in the additional section.
fn expected(case: &Case, all: &[Case]) -> Expect {
    let records = |records: BTreeSet<String>| Vec::from_iter(records).join("\n");
    match case.answer {
        Answer::NoData => nodata(),
        Answer::NxDomain => nxdomain(),
        Answer::Refused => refused().option("EDE 20"),
        Answer::Data(_) => {
            let targets = case.targets();
            let addresses = all.iter().filter(|other| {
                targets.contains(&other.name) && ["A", "AAAA"].contains(&&*other.rtype)
            });
            let addresses: BTreeSet<String> = addresses.flat_map(Case::records).collect();
            assert_eq!(targets.is_empty(), addresses.is_empty(), "{case:?}");
            answer(&records(case.records())).additional(&records(addresses))
        }
    }
}

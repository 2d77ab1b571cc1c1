//! Owner names and their records: RFC 1034 sections 3.6 and 4.3.2, RFC 2308 section 2, RFC 2782, RFC 8020, RFC 8482,
//! and section 2.4 of the Kubernetes DNS specification. The expected answers are in the table of `support::names`.

use std::collections::BTreeSet;

use support::names::{Answer, Case, cases};

use crate::conformance::cases::{
    Expectation, answer, check_with_edns_and_without, nodata, nxdomain, refused,
};
use crate::conformance::servers::serve_sample;

#[test]
fn every_name_has_the_records_of_the_table() {
    let all = cases();
    let questions: Vec<String> = all.iter().map(Case::question).collect();
    let cases = questions.iter().zip(&all);
    let cases = cases.map(|(question, case)| (question.as_str(), expected(case, &all)));
    check_with_edns_and_without(&serve_sample(), &cases.collect::<Vec<_>>());
}

/// Returns the whole expected reply. Addresses of SRV targets, also from the table, are in the additional section.
fn expected(case: &Case, all: &[Case]) -> Expectation {
    let records = |records: BTreeSet<String>| Vec::from_iter(records).join("\n");
    match case.answer {
        Answer::NoData => nodata(),
        Answer::NxDomain => nxdomain(),
        Answer::Refused => refused().option("EDE 20"),
        Answer::ServFail => unreachable!("the sample has no name that fails"),
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

//! Checks that all servers give the same answers, because speed can only be compared for equal answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use support::output::print_line;
use support::query::{self, Packet};
use support::reply::Record;
use support::wait::TIMEOUT;
use support::wire::{Transport, try_ask};

use crate::data::Kind;
use crate::servers::Server;

/// Number of compared questions of a kind.
const SAMPLE: usize = 25;

/// Compares the response code and the answer section of a sample of all kinds, and prints the length of replies.
///
/// # Errors
///
/// If two servers differ, a reply is truncated, or a reply is missing.
pub(crate) fn check_same_answers<'s>(
    servers: impl IntoIterator<Item = &'s Server>,
    kinds: &[Kind],
    over: Transport,
) -> Result<()> {
    let servers: Vec<&Server> = servers.into_iter().collect();
    for kind in kinds {
        let mut octets: BTreeMap<&str, usize> = BTreeMap::new();
        let step = (kind.questions.len() / SAMPLE) | 1; // odd, to reach all parts of the mixed kind
        for asked in kind.questions.iter().step_by(step) {
            let mut first: Option<(&str, Contents)> = None;
            for server in &servers {
                let (seen, length) = fetch(server.address, asked, over)
                    .with_context(|| format!("querying {} for {asked:?}", server.name))?;
                let longest = octets.entry(server.name).or_default();
                *longest = length.max(*longest);
                let (name, wanted) = first.get_or_insert_with(|| (server.name, seen.clone()));
                ensure!(
                    *wanted == seen,
                    "answers of {name} and {} to {asked:?} differ:\n{wanted:?}\n{seen:?}",
                    server.name
                );
            }
        }
        let octets: Vec<String> = octets
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        print_line(&format!(
            "{}: same answers; maximum octets: {}",
            kind.name,
            octets.join(", ")
        ));
    }
    Ok(())
}

/// Response code, and sorted records.
pub(crate) type Contents = (u16, Vec<Record>);

/// Compares the numbers of answers of two servers, each for its own questions.
///
/// # Errors
///
/// If the servers differ, a reply is truncated, or a reply is missing.
pub(crate) fn check_answer_counts(servers: [&Server; 2], kinds: &[Kind]) -> Result<()> {
    let step = (kinds[0].questions.len() / SAMPLE) | 1;
    for index in (0..kinds[0].questions.len()).step_by(step) {
        let mut seen = servers.iter().zip(kinds).map(|(server, kind)| {
            let ((rcode, answers), _) =
                fetch(server.address, &kind.questions[index], Transport::Udp)?;
            Ok::<_, anyhow::Error>((rcode, answers.len()))
        });
        let (Some(one), Some(other)) = (seen.next().transpose()?, seen.next().transpose()?) else {
            continue;
        };
        ensure!(
            one == other,
            "the answer to {:?} is {one:?}, the answer to {:?} is {other:?}",
            kinds[0].questions[index],
            kinds[1].questions[index]
        );
    }
    Ok(())
}

/// Queries a server and returns the contents and the length of its reply.
///
/// # Errors
///
/// If the reply is truncated or missing.
pub(crate) fn fetch(server: SocketAddr, asked: &str, over: Transport) -> Result<(Contents, usize)> {
    let reply = try_ask(server, &query(asked), over, TIMEOUT)?;
    ensure!(!reply.is_truncated(), "a reply is truncated");
    let mut records = reply.in_lower_case().answers;
    records.sort_unstable();
    Ok(((reply.rcode, records), reply.octets))
}

/// Returns a query as dnsperf writes it: with RD, and EDNS with 4096 octets.
pub(crate) fn query(question: &str) -> Packet {
    query::query(&format!("{question} +rd +bufsize=4096"))
}

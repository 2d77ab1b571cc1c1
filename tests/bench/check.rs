//! Whether all servers give the same answers, without which comparing their speed says nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use support::query::{self, Packet};
use support::reply::Record;
use support::say::say;
use support::wait::PATIENCE;
use support::wire::{Over, try_ask};

use crate::data::Kind;
use crate::servers::Server;

/// Questions of a kind that are compared.
const SAMPLE: usize = 25;

/// Compares response code and records of the answer section of a sample of all kinds, and tells how long replies are.
///
/// # Errors
///
/// If two servers differ, a reply is cut, or none comes.
pub(crate) fn same_answers<'s>(
    servers: impl IntoIterator<Item = &'s Server>,
    kinds: &[Kind],
    over: Over,
) -> Result<()> {
    let servers: Vec<&Server> = servers.into_iter().collect();
    for kind in kinds {
        let mut octets: BTreeMap<&str, usize> = BTreeMap::new();
        let step = (kind.questions.len() / SAMPLE) | 1; // odd, to meet all of what is mixed
        for asked in kind.questions.iter().step_by(step) {
            let mut first: Option<(&str, Seen)> = None;
            for server in &servers {
                let (seen, length) = see(server.address, asked, over)
                    .with_context(|| format!("asking {} for {asked:?}", server.name))?;
                let longest = octets.entry(server.name).or_default();
                *longest = length.max(*longest);
                let (name, wanted) = first.get_or_insert_with(|| (server.name, seen.clone()));
                ensure!(
                    *wanted == seen,
                    "{name} and {} differ about {asked:?}:\n{wanted:?}\n{seen:?}",
                    server.name
                );
            }
        }
        let octets: Vec<String> = octets
            .iter()
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        say(&format!(
            "{}: same answers; octets at most: {}",
            kind.name,
            octets.join(", ")
        ));
    }
    Ok(())
}

/// Response code, and records in some order.
pub(crate) type Seen = (u16, Vec<Record>);

/// Compares how many answers servers give, each to its own questions.
///
/// # Errors
///
/// If two servers differ, a reply is cut, or none comes.
pub(crate) fn as_many_answers(servers: [&Server; 2], kinds: &[Kind]) -> Result<()> {
    let step = (kinds[0].questions.len() / SAMPLE) | 1;
    for index in (0..kinds[0].questions.len()).step_by(step) {
        let mut seen = servers.iter().zip(kinds).map(|(server, kind)| {
            let ((rcode, answers), _) = see(server.address, &kind.questions[index], Over::Udp)?;
            Ok::<_, anyhow::Error>((rcode, answers.len()))
        });
        let (Some(one), Some(other)) = (seen.next().transpose()?, seen.next().transpose()?) else {
            continue;
        };
        ensure!(
            one == other,
            "{:?} is answered with {one:?}, {:?} with {other:?}",
            kinds[0].questions[index],
            kinds[1].questions[index]
        );
    }
    Ok(())
}

/// What a server answers, and how long its reply is.
///
/// # Errors
///
/// If the reply is cut, or none comes.
pub(crate) fn see(server: SocketAddr, asked: &str, over: Over) -> Result<(Seen, usize)> {
    let reply = try_ask(server, &query(asked), over, PATIENCE)?;
    ensure!(!reply.is_truncated(), "a reply is cut");
    let mut records = reply.in_lower_case().answers;
    records.sort_unstable();
    Ok(((reply.rcode, records), reply.octets))
}

/// A query as dnsperf writes it: RD, and EDNS with 4096 octets.
pub(crate) fn query(question: &str) -> Packet {
    query::query(&format!("{question} +rd +bufsize=4096"))
}

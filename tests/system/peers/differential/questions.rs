//! Names and types of questions: existing names, and similar names that do not exist.

use std::collections::{BTreeMap, BTreeSet};

/// Types of questions. Common types occur more often.
const TYPES: [&str; 19] = [
    "A", "A", "A", "AAAA", "AAAA", "AAAA", "SRV", "SRV", "SRV", "TXT", "SOA", "NS", "ANY", "HTTPS",
    "TYPE666", "DS", "MX", "CNAME", "PTR",
];

/// EDNS sizes of queries.
const SIZES: [&str; 4] = ["", " +bufsize=512", " +bufsize=1232", " +bufsize=4096"];

/// Names that are queried with every type and every size.
const FIXED: [&str; 15] = [
    "global.",
    "dns.global.",
    "ns.dns.global.",
    "x.ns.dns.global.",
    "dns-version.global.",
    "x.dns-version.global.",
    "prod.global.",
    "x.prod.global.",
    "kafka.global.",
    "_tcp.global.",
    "_sql._tcp.prod.global.",
    "*.global.",
    "*.prod.global.",
    ".",
    "example.org.",
];

/// Labels for changes of a name.
const LABELS: [&str; 12] = [
    "x", "east", "west", "hub", "db", "prod", "kafka", "_tcp", "_udp", "_sql", "*", "global",
];

/// Returns at least `count` questions about a zone with these owner names, none of them about `not_asked`.
pub fn questions(
    owners: &BTreeSet<String>,
    not_asked: &BTreeSet<String>,
    count: usize,
) -> Vec<String> {
    let mut rng = fastrand::Rng::with_seed(0x5eed);
    let above = owners
        .iter()
        .flat_map(|owner| owner.match_indices('.').map(|(at, _)| &owner[at + 1..]));
    let between: BTreeSet<&str> = above
        .filter(|name| name.ends_with("global.") && !owners.contains(*name))
        .filter(|name| !not_asked.contains(*name))
        .collect();
    let between = by_service(between.into_iter());
    let owners = by_service(owners.iter().map(String::as_str));

    let mut questions = Vec::new();
    for name in FIXED {
        for rtype in &TYPES[2..] {
            questions.push(make(&mut rng, name.to_owned(), rtype));
        }
    }
    while questions.len() < count {
        let owner = draw(&mut rng, &owners);
        let name = match rng.u8(..10) {
            0..4 => owner.to_owned(),
            4..6 => draw(&mut rng, &between).to_owned(),
            _ => near(&mut rng, owner),
        };
        if name.len() <= 253
            && !not_asked.contains(&name)
            && name.split('.').all(|label| label.len() <= 63)
        {
            let rtype = TYPES[rng.usize(..TYPES.len())];
            questions.push(make(&mut rng, name, rtype));
        }
    }
    questions
}

/// Groups names by their last three labels, so that small and large services have equal weight.
fn by_service<'n>(names: impl Iterator<Item = &'n str>) -> Vec<Vec<&'n str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        let third = name.rmatch_indices('.').nth(3);
        let service = third.map_or(name, |(at, _)| &name[at + 1..]);
        groups.entry(service).or_default().push(name);
    }
    groups.into_values().collect()
}

fn draw<'n>(rng: &mut fastrand::Rng, groups: &[Vec<&'n str>]) -> &'n str {
    let group = &groups[rng.usize(..groups.len())];
    group[rng.usize(..group.len())]
}

fn make(rng: &mut fastrand::Rng, name: String, rtype: &str) -> String {
    let name = if rng.bool() {
        mixed_case(rng, &name)
    } else {
        name
    };
    let edns = SIZES[rng.usize(..SIZES.len())];
    let wants_dnssec = !edns.is_empty() && rng.u8(..3) == 0;
    let dnssec = if wants_dnssec { " +do" } else { "" };
    let recursion = if rng.bool() { " +rd" } else { "" };
    format!("{name} {rtype}{edns}{dnssec}{recursion}")
}

fn mixed_case(rng: &mut fastrand::Rng, name: &str) -> String {
    let mix = |c: char| {
        if rng.bool() {
            c.to_ascii_uppercase()
        } else {
            c
        }
    };
    name.chars().map(mix).collect()
}

/// Changes a name slightly, like a typing error or a search list.
fn near(rng: &mut fastrand::Rng, owner: &str) -> String {
    let mut labels: Vec<String> = owner
        .trim_end_matches('.')
        .split('.')
        .map(str::to_owned)
        .collect();
    let at = rng.usize(..labels.len());
    let label = LABELS[rng.usize(..LABELS.len())].to_owned();
    match rng.u8(..8) {
        0 => drop(labels.remove(at)),
        1 => labels.insert(at, label),
        2 => labels.insert(0, label),
        3 => labels[at] = label,
        4 => {
            let other = rng.usize(..labels.len());
            labels.swap(at, other);
        }
        5 => labels[at] = format!("{}x", labels[at]),
        6 => labels[at] = labels[at].trim_start_matches('_').to_owned(),
        // The suffix of a search list.
        _ => labels.extend(["svc".to_owned(), "global".to_owned()]),
    }
    labels.retain(|label| !label.is_empty());
    format!("{}.", labels.join("."))
}

//! Why an answer is what it is, or why there is none.
//!
//! It starts where every answer does, at [`read()`] and [`answer_question()`], so an explanation can never differ from the answer;
//! it only adds the objects behind it. Pure, like what it explains.

mod context;
mod missing;
mod nearest;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

pub use context::{Context, Observer, PlainService};
use missing::{missing, unready};
use nearest::nearest;

use crate::mirror::{ObjectRef, ServiceKey, Skip, SkipReason};
use crate::report::{EndpointReport, SkipReport, State, write_rows};
use crate::table::{Conflict, ConflictKind, Origin, Published, Service, Table};
use crate::zone::answer::answer_question;
use crate::zone::{
    Answer, AnswerContext, Name, Reading, RecordType, Scope, Section, View, Why, Zones, read,
};

/// What became of a name, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The name, absolute.
    pub name: String,
    /// What the name is read as, in words.
    pub reading: String,
    /// The name exists.
    pub exists: bool,
    /// What each type of question gets.
    pub answers: Vec<AnswerReport>,
    /// Every endpoint of the service that the name is about, answered or not.
    pub endpoints: Vec<EndpointReport>,
    /// Objects that were left out and have to do with the name.
    pub skipped: Vec<SkipReport>,
    /// Contradictions that have to do with the name.
    pub conflicts: Vec<Conflict>,
    /// The names that exist and are nearest to one that does not.
    pub nearest: Vec<String>,
    /// What else one should know.
    pub notes: Vec<String>,
}

/// What one question gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerReport {
    /// `A`, `AAAA`, `SRV`.
    pub rtype: String,
    /// `NOERROR`, `NODATA`, `NXDOMAIN`, `REFUSED`, `SERVFAIL`.
    pub result: String,
    /// TTL of the records, or of the negative answer, seconds.
    pub ttl: Option<u32>,
    /// Type and data of each record, as in a zone file.
    pub records: Vec<String>,
}

/// Returns the service whose canonical name, or a name below it, a name may be.
pub fn service_of(zones: &Zones, name: &Name) -> Option<ServiceKey> {
    zones.of(name)?;
    let labels = labels_below(zones, name);
    let [.., service, namespace] = labels.as_slice() else {
        return None;
    };
    Some(ServiceKey {
        namespace: namespace.parse().ok()?,
        service: service.parse().ok()?,
    })
}

/// Explains a name. `None` before the first complete table.
pub fn explain(
    zones: &Zones,
    published: &Published,
    context: &Context<'_>,
    name: &Name,
) -> Option<Explanation> {
    let table = published.table.as_ref()?;
    let reading = read(zones, table, name);
    let about = about(zones, table, name, &reading);
    let asked = labels_below(zones, name).join(".");
    let exists = exists(&reading);
    let mut notes = reading_notes(zones, table, context, name, &reading);
    if published.is_expired && !matches!(reading, Reading::Outside) {
        let expired = "nothing is answered: the source has been silent for longer than --max-stale";
        notes.insert(0, expired.to_owned());
    }
    notes.extend(service_notes(&about, context));
    let answer = |rtype| answer_report(zones, published, name, rtype);
    Some(Explanation {
        name: name.to_string(),
        reading: words(&reading),
        exists,
        answers: RecordType::OF_SERVICES.map(answer).into(),
        endpoints: about
            .iter()
            .flat_map(|service| endpoint_reports(service))
            .collect(),
        skipped: skipped(table, &about, zones, name),
        conflicts: conflicts(table, &about, &asked, &reading),
        nearest: match exists {
            true => Vec::new(),
            false => nearest(zones, table, name),
        },
        notes,
    })
}

/// Tells whether a name exists (RFC 8020).
fn exists(reading: &Reading<'_>) -> bool {
    match reading {
        Reading::Outside | Reading::Missing(..) => false,
        Reading::Apex(_)
        | Reading::NsHost(_)
        | Reading::Version(_)
        | Reading::Empty(_)
        | Reading::Pointers(..)
        | Reading::View(..) => true,
    }
}

fn endpoint_reports(service: &Service) -> Vec<EndpointReport> {
    let endpoints = State::of_service(service);
    let report = |(endpoint, state)| EndpointReport::new(&service.key, endpoint, state);
    endpoints.map(report).collect()
}

/// Returns the notes on what a name is read as.
fn reading_notes(
    zones: &Zones,
    table: &Table,
    context: &Context<'_>,
    name: &Name,
    reading: &Reading<'_>,
) -> Vec<String> {
    match reading {
        Reading::View(_, view) => {
            let notes = view_notes(view).into_iter();
            notes.chain(unready(view.service, table)).collect()
        }
        Reading::Missing(_, why) => {
            let labels = labels_below(zones, name);
            let about = about(zones, table, name, reading);
            missing(*why, &labels, about.first().copied(), table, context)
        }
        Reading::Outside => {
            let served: Vec<&str> = zones.iter().map(|zone| zone.name.as_str()).collect();
            vec![format!("served here: {}", served.join(" "))]
        }
        Reading::NsHost(zone) if zone.ns_addresses.is_empty() => {
            vec!["no address at port 53 is known: --ns-address of serve gives one".to_owned()]
        }
        Reading::Apex(_)
        | Reading::NsHost(_)
        | Reading::Version(_)
        | Reading::Pointers(..)
        | Reading::Empty(_) => Vec::new(),
    }
}

/// Returns the notes on the services that a name is about.
fn service_notes(about: &[&Service], context: &Context<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut endpoints = about.iter().flat_map(|service| &service.endpoints);
    if endpoints.any(|endpoint| endpoint.origin == Origin::Mirror) {
        notes.push(
            "only meshed clients can use the addresses of other clusters' endpoints".to_owned(),
        );
    }
    if let Observer::Once(_) = context.observer
        && about.iter().any(|service| !service.mirrors.is_empty())
    {
        notes.push(
            "only a running server can know whether two Links write one mirror (conflict identity): ask it with --server"
                .to_owned(),
        );
    }
    notes
}

fn answer_report(
    zones: &Zones,
    published: &Published,
    name: &Name,
    rtype: RecordType,
) -> AnswerReport {
    let answer = answer_question(zones, published, name, rtype);
    let result = match answer {
        Answer::Data(..)
        | Answer::Address(..)
        | Answer::Pointers(..)
        | Answer::Soa(_)
        | Answer::Ns(_)
        | Answer::Text(_) => "NOERROR",
        Answer::NoData(_) => "NODATA",
        Answer::NxDomain(_) => "NXDOMAIN",
        Answer::Refused => "REFUSED",
        Answer::NotReady | Answer::Expired => "SERVFAIL",
    };
    let records = answer.records(AnswerContext::new(name, published.serial));
    let answered = records.iter().filter(|r| r.section == Section::Answer);
    AnswerReport {
        rtype: rtype.to_string(),
        result: result.to_owned(),
        ttl: records.first().map(|record| record.ttl),
        records: answered.map(|record| record.data.to_string()).collect(),
    }
}

// === What the name is about ===

/// Says what a name was read as.
fn words(reading: &Reading<'_>) -> String {
    match reading {
        Reading::Outside => "outside the zones that are served here".to_owned(),
        Reading::Apex(zone) => format!("the apex of zone {}", zone.name),
        Reading::NsHost(_) => "this server's own name".to_owned(),
        Reading::Version(_) => "the version of the Kubernetes DNS specification".to_owned(),
        Reading::Empty(_) => {
            "an empty non-terminal: names exist below it, and it has no records".to_owned()
        }
        Reading::Pointers(..) => "an address of endpoints".to_owned(),
        Reading::View(_, view) => view_words(view),
        Reading::Missing(_, why) => match why {
            Why::NoForm => "no form of name that is served here",
            Why::NoAddress => "no endpoint's address",
            Why::NoService => "no such service",
            Why::NoOwner => "a short name that belongs to no namespace",
            Why::NoEndpoint => "a service without any endpoint",
            Why::NoCluster => "a service without an endpoint in that cluster",
            Why::NoHost => "a cluster without an endpoint of that name",
            Why::NoPort => "a name without an endpoint that has this port",
        }
        .to_owned(),
    }
}

fn view_words(view: &View<'_>) -> String {
    let key = &view.service.key;
    let first = view
        .covered
        .first()
        .map(|e| (e.cluster.to_string(), e.hostname.to_string()));
    let (cluster, host) = first.unwrap_or_default();
    let scope = match view.scope {
        Scope::Service => "every endpoint of every cluster".to_owned(),
        Scope::Cluster => format!("every endpoint of cluster '{cluster}'"),
        Scope::Host => format!("endpoint '{host}' of cluster '{cluster}'"),
    };
    let port = view
        .port
        .and_then(|port| Some((port.name.as_ref()?, port.protocol.label())));
    let port = port
        .map(|(name, protocol)| format!(", port '{name}' over {protocol}"))
        .unwrap_or_default();
    format!(
        "service '{}' in namespace '{}': {scope}{port}",
        key.service, key.namespace
    )
}

/// Finds the services that a name is about, whether or not it exists: the longest part of it that is one.
fn about<'t>(
    zones: &Zones,
    table: &'t Table,
    name: &Name,
    reading: &Reading<'t>,
) -> Vec<&'t Service> {
    if let Reading::View(_, view) = reading {
        return vec![view.service];
    }
    let labels = labels_below(zones, name);
    let canonical = match labels.as_slice() {
        [.., service, namespace] => table.service(namespace, service),
        _ => None,
    };
    let short = labels
        .last()
        .and_then(|service| table.short_service(service));
    canonical.or(short).into_iter().collect()
}

/// Returns the labels of a name without its zone's.
fn labels_below<'n>(zones: &Zones, name: &'n Name) -> Vec<&'n str> {
    let zone_labels = zones
        .of(name)
        .map_or(0, |zone| zone.name.as_str().matches('.').count());
    (0..name.count() - zone_labels)
        .filter_map(|index| name.label(index))
        .collect()
}

/// Says what else one should know of a name that exists.
fn view_notes(view: &View<'_>) -> Vec<String> {
    let dead = view
        .covered
        .iter()
        .filter(|endpoint| !endpoint.alive)
        .count();
    let counted = match dead {
        1 => "1 endpoint's gateway is down".to_owned(),
        dead => format!("{dead} endpoints' gateways are down"),
    };
    match (dead, view.shows_dead) {
        (0, _) => Vec::new(),
        (_, true) => vec![format!("{counted}; answered all the same")],
        (_, false) => vec![format!("{counted}; left out")],
    }
}

/// Lists the contradictions of the services, of their short names, of the objects behind them, and of the name itself.
fn conflicts(
    table: &Table,
    about: &[&Service],
    asked: &str,
    reading: &Reading<'_>,
) -> Vec<Conflict> {
    let is_of = |service: &Service, name: &str| {
        let short = service.key.service.as_str();
        let mut objects = service
            .endpoints
            .iter()
            .flat_map(|endpoint| endpoint.object_refs(&service.key.namespace));
        name == short
            || name.ends_with(&format!(".{short}"))
            || objects.any(|object| object.to_string() == name)
    };
    // What hides a name hides those below it, and below a short name without an owner there is nothing.
    let has_no_owner = matches!(reading, Reading::Missing(_, Why::NoOwner));
    let is_below = |Conflict { kind, name, .. }: &Conflict| {
        let is_kind =
            *kind == ConflictKind::Shadowed || (*kind == ConflictKind::ShortName && has_no_owner);
        is_kind
            && asked
                .strip_suffix(name.as_str())
                .is_some_and(|below| below.ends_with('.'))
    };
    let concerns = |conflict: &&Conflict| {
        conflict.name == asked
            || is_below(conflict)
            || about.iter().any(|service| is_of(service, &conflict.name))
    };
    let own = about.iter().flat_map(|service| &service.conflicts);
    let between = table.own_conflicts().filter(concerns);
    own.chain(between)
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Lists what was left out of the services, or, for a name that does not exist, of the namespace.
fn skipped(table: &Table, about: &[&Service], zones: &Zones, name: &Name) -> Vec<SkipReport> {
    let labels = labels_below(zones, name);
    let namespace = labels.last().copied().unwrap_or_default();
    let service = labels
        .len()
        .checked_sub(2)
        .map(|index| labels[index])
        .unwrap_or_default();
    let speaks_of = |object: &ObjectRef, skip: &Skip, labels: [&str; 2]| match &skip.about {
        Some((key, _)) => key.labels() == labels,
        // Nothing better is known of it than its own name.
        None => object.key.name.text().contains(labels[0]) && *object.key.namespace == *labels[1],
    };
    let concerns = |object: &ObjectRef, skip: &Skip| match about {
        [] => speaks_of(object, skip, [service, namespace]),
        some => some.iter().any(|s| {
            let is_own = s.skipped.iter().any(|(own, _)| own == object);
            is_own || speaks_of(object, skip, s.key.labels())
        }),
    };
    let concerned = table.skipped().filter(|(object, skip)| {
        concerns(object, skip) && (skip.reason != SkipReason::NotHeadless || about.is_empty())
    });
    let report = |(object, skip): (ObjectRef, &Skip)| SkipReport {
        object: object.to_string(),
        reason: skip.reason,
        detail: skip.detail.clone(),
    };
    concerned.map(report).collect()
}

// === impl Explanation ===

impl Explanation {
    /// Writes the explanation for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "{}\n  is {}", self.name, self.reading)?;
        writeln!(text, "\nanswers:")?;
        for answer in &self.answers {
            let ttl = answer
                .ttl
                .map(|ttl| format!(", TTL {ttl}"))
                .unwrap_or_default();
            writeln!(text, "  {:4}  {}{ttl}", answer.rtype, answer.result)?;
            for record in &answer.records {
                let data = record
                    .split_once('\t')
                    .map_or(record.as_str(), |(_, data)| data);
                writeln!(text, "        {data}")?;
            }
        }
        if !self.endpoints.is_empty() {
            writeln!(text, "\nendpoints of the service:")?;
            let rows: Vec<_> = self.endpoints.iter().map(EndpointReport::row).collect();
            write_rows(text, &rows)?;
        }
        if !self.skipped.is_empty() {
            writeln!(text, "\nleft out:")?;
            let skipped = self.skipped.iter();
            let rows = skipped.map(|s| [s.object.clone(), s.reason.to_string(), s.detail.clone()]);
            write_rows(text, &rows.collect::<Vec<_>>())?;
        }
        if !self.conflicts.is_empty() {
            writeln!(text, "\nconflicts:")?;
            let conflicts = self.conflicts.iter();
            let rows =
                conflicts.map(|c| [c.kind.name().to_owned(), c.name.clone(), c.detail.clone()]);
            write_rows(text, &rows.collect::<Vec<_>>())?;
        }
        if !self.nearest.is_empty() {
            writeln!(text, "\nnearest names that exist:")?;
            self.nearest
                .iter()
                .try_for_each(|name| writeln!(text, "  {name}"))?;
        }
        self.notes
            .iter()
            .try_for_each(|note| writeln!(text, "\nnote: {note}"))
    }
}

#[cfg(test)]
mod tests;

//! The servers of a world, their replies and their differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use serde_json::Value;
use support::process::run;
use support::query::query;
use support::reply::{Reply, sorted_texts};
use support::server::Server;
use support::standin::{Behavior, StandIn};
use support::wire::{Transport, exchange, read_datagram};

use super::exceptions::{Rule, rule_of};
use super::markers::{self, Visible};
use super::questions::{ALL_TYPES, Name, USUAL_TYPES, Vocabulary};
use super::settings::{self, Setting};
use super::world::{Event, World};

/// Number of changes in a world.
const STEPS: u32 = 20;
/// Maximum number of events in one step.
const BURST: u32 = 4;
/// After a step, one of this many services that its objects do not name is compared, too. After the last step, all are.
const UNTOUCHED: usize = 6;
/// One of this many names that do not exist gets all questions, and those below it are asked. Nothing exists below such a
/// name (RFC 8020).
const SAMPLE: usize = 40;
/// Number of queries that wait for their replies.
const WINDOW: usize = 48;
/// Time after which a query is sent again.
const RESEND: Duration = Duration::from_secs(1);
/// A response code.
const NXDOMAIN: u8 = 3;
/// Number of differences in an error.
const SHOWN: usize = 4;

/// A binary with a setting of its own.
pub struct Program {
    name: &'static str,
    path: PathBuf,
    own: Option<&'static str>,
    help: String,
}

/// Counts of worlds. They show that the comparison covers each kind of reply.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    seed: u64,
    skipped: BTreeSet<String>,
    worlds: usize,
    events: usize,
    markers: usize,
    questions: usize,
    /// The replies of each kind, and the worlds that have one.
    kinds: BTreeMap<&'static str, [usize; 2]>,
    /// The replies that a rule explains, and the worlds that have one.
    rules: BTreeMap<Rule, [usize; 2]>,
    took: Duration,
}

/// The kinds of replies that worlds must have.
const KINDS: [&str; 4] = ["with records", "without records", "NXDOMAIN", "SERVFAIL"];

/// A reply without what may differ: ID, size, order of the records, serial.
pub type Content = (u16, u16, [Vec<String>; 3], Option<String>);

/// Both servers of a world.
struct Pair<'p> {
    sides: [(&'p Program, Server); 2],
    visible: Visible,
    patience: Duration,
    setting: Setting,
    /// The objects of the world.
    objects: Vec<Value>,
    random: Rng,
    outcome: Outcome,
}

// === impl Program ===

impl Program {
    pub fn new(name: &'static str, path: PathBuf) -> Self {
        let help = run(Command::new(&path).args(["serve", "--help"])).stdout;
        Self {
            name,
            path,
            own: None,
            help,
        }
    }

    /// Starts the server.
    fn start(&self, setting: &Setting, kubeconfig: &Path) -> Server {
        let mut arguments = setting.arguments_for(&self.help);
        arguments.extend(self.own.map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let server = Server::of_program(&self.path, kubeconfig, &arguments);
        server.wait_until_ready();
        server
    }

    /// Adds a setting that the other side does not have.
    pub fn with_setting(self, own: &'static str) -> Self {
        Self {
            own: Some(own),
            ..self
        }
    }
}

/// Runs both binaries in the world of a seed, and compares their answers after each change. A difference that lasts longer
/// than `patience` is an error.
pub fn run_world(one: &Program, other: &Program, seed: u64, patience: Duration) -> Result<Outcome> {
    let setting = settings::of_seed(seed);
    let began = Instant::now();
    let mut outcome = Outcome {
        seed,
        worlds: 1,
        ..Outcome::default()
    };
    outcome.skipped = [one, other]
        .iter()
        .flat_map(|program| setting.unknown_to(&program.help))
        .collect();
    if !outcome.skipped.is_empty() {
        return Ok(outcome);
    }
    let mut world = World::new(seed, setting);
    let mut step = 1;
    let first = world.objects().cloned();
    let first: Vec<_> = first.chain(markers::manifest(step).0).collect();
    let mut vocabulary = Vocabulary::new();
    first.iter().for_each(|object| vocabulary.add(object));
    let api_server = StandIn::start(Behavior::Normal, &first)?;
    let sides =
        [one, other].map(|program| (program, program.start(&setting, &api_server.kubeconfig)));
    let servers = sides.each_ref().map(|(_, server)| server.dns);
    step += 1;
    let visible = Visible::find(&servers, step, || put_markers(&api_server, step));
    outcome.markers = visible.count();
    let mut pair = Pair {
        sides,
        visible,
        patience,
        setting,
        objects: world.objects().cloned().collect(),
        random: Rng::with_seed(seed),
        outcome,
    };
    let mut history: Vec<Event> = Vec::new();
    let result = (|| {
        pair.compare(&vocabulary, vocabulary.names(), ALL_TYPES)?;
        for _ in 0..STEPS {
            let burst = if setting.has_memory {
                1
            } else {
                pair.random.u32(1..=BURST)
            };
            let events: Vec<Event> = (0..burst).flat_map(|_| world.change()).collect();
            let mut touched = Vocabulary::new();
            for event in events {
                vocabulary.add(event.object());
                touched.add(event.object());
                event.apply(&api_server);
                history.push(event);
                if setting.has_memory {
                    step += 1;
                    put_markers(&api_server, step);
                    pair.wait(step)?;
                }
            }
            if !setting.has_memory {
                step += 1;
                put_markers(&api_server, step);
                pair.wait(step)?;
            }
            pair.objects = world.objects().cloned().collect();
            let mut names = vocabulary.names();
            let random = &mut pair.random;
            names.retain(|name| name.is_of(&touched.services) || random.usize(..UNTOUCHED) == 0);
            pair.compare(&vocabulary, names, USUAL_TYPES)?;
        }
        pair.compare(&vocabulary, vocabulary.names(), ALL_TYPES)
    })();
    pair.outcome.events = history.len();
    pair.outcome.took = began.elapsed();
    result
        .map(|()| pair.outcome)
        .map_err(|error: anyhow::Error| {
            let arguments = setting.arguments_for(&other.help);
            let mut text =
                format!("world {seed} with {arguments:?}, step {step}, after these events:");
            for event in history.iter().rev().take(3).rev() {
                let _ = write!(text, "\n  {event:?}");
            }
            error.context(text)
        })
}

fn put_markers(api_server: &StandIn, step: u32) {
    let before = markers::manifest(step - 1).0;
    let after = markers::manifest(step).0;
    let changed = after.iter().filter(|object| !before.contains(object));
    changed.for_each(|object| api_server.put(object));
}

// === impl Pair ===

impl Pair<'_> {
    /// Waits until both servers have applied the events up to a step.
    fn wait(&mut self, step: u32) -> Result<()> {
        for (program, server) in &mut self.sides {
            server.check()?;
            if let Err(marker) = self.visible.wait(server.dns, step, self.patience) {
                bail!("{} does not show step {step}: {marker}", program.name);
            }
        }
        Ok(())
    }

    /// Compares the answers at names, and at the names below those that exist.
    fn compare(
        &mut self,
        vocabulary: &Vocabulary,
        names: Vec<Name>,
        types: &'static [&'static str],
    ) -> Result<()> {
        let mut level = names;
        while !level.is_empty() {
            level.retain(|name| name.is_valid());
            let first = level.iter().map(|name| name.first_question()).collect();
            let exists = self.compare_questions(first)?;
            let chosen = level.into_iter().zip(exists);
            let chosen = chosen.filter(|(_, exists)| *exists || self.random.usize(..SAMPLE) == 0);
            let chosen: Vec<Name> = chosen.map(|(name, _)| name).collect();
            let others = chosen
                .iter()
                .flat_map(|name| name.questions(types))
                .collect();
            self.compare_questions(others)?;
            level = chosen
                .iter()
                .flat_map(|name| vocabulary.below(name))
                .collect();
        }
        Ok(())
    }

    /// Asks both servers, and again as long as replies differ. Returns for each question whether its name exists.
    fn compare_questions(&mut self, questions: Vec<String>) -> Result<Vec<bool>> {
        let deadline = Instant::now() + self.patience;
        let [first, mut others] = self.replies(&questions)?;
        first.iter().for_each(|reply| self.outcome.count(reply));
        let is_some = |reply: &Vec<u8>| reply[3] & 0x0f != NXDOMAIN;
        let pairs = first.iter().zip(&others);
        let exists = pairs
            .map(|(one, other)| is_some(one) || is_some(other))
            .collect();
        let (mut open, mut ones) = (questions, first);
        loop {
            let mut differences = Vec::new();
            for (question, (one, other)) in open.into_iter().zip(ones.iter().zip(&others)) {
                let Some([was, is]) = self.difference(&question, one, other)? else {
                    continue;
                };
                match rule_of(&question, [&was, &is], &self.objects, &self.setting) {
                    Some(rule) => self.outcome.rules.entry(rule).or_insert([0, 1])[0] += 1,
                    None => differences.push((question, was, is)),
                }
            }
            if differences.is_empty() {
                return Ok(exists);
            }
            if Instant::now() > deadline {
                bail!(self.describe(&differences));
            }
            open = differences
                .into_iter()
                .map(|(question, ..)| question)
                .collect();
            thread::sleep(Duration::from_millis(20));
            [ones, others] = self.replies(&open)?;
        }
    }

    /// Returns the replies of both servers over UDP.
    fn replies(&self, questions: &[String]) -> Result<[Vec<Vec<u8>>; 2]> {
        let [one, other] = self.sides.each_ref().map(|(_, server)| server.dns);
        thread::scope(|scope| {
            let one = scope.spawn(move || ask_all(one, questions));
            let other = ask_all(other, questions)?;
            let one = one.join().expect("asking does not panic")?;
            Ok([one, other])
        })
    }

    /// Returns two replies if they differ: over TCP if not all records fit. Which of them do depends on their order.
    fn difference(&self, question: &str, one: &[u8], other: &[u8]) -> Result<Option<[Content; 2]>> {
        let mut pair = [content(one)?, content(other)?];
        if is_truncated(one) || is_truncated(other) {
            let [one, other] = self.over_tcp(question)?;
            pair = [content(&one)?, content(&other)?];
        }
        Ok((pair[0] != pair[1]).then_some(pair))
    }

    fn over_tcp(&self, question: &str) -> Result<[Vec<u8>; 2]> {
        let packet = query(&format!("{question} +edns"));
        let ask = |server: &Server| exchange(server.dns, &packet.0, Transport::Tcp, RESEND * 10);
        let [one, other] = self.sides.each_ref().map(|(_, server)| ask(server));
        Ok([one?, other?])
    }

    /// Returns a description of differences, with the complete replies.
    fn describe(&self, differences: &[(String, Content, Content)]) -> String {
        let count = differences.len();
        let mut text = format!(
            "{count} replies differ for {:?}, and no rule explains it; the first of them:",
            self.patience
        );
        for (question, one, other) in differences.iter().take(SHOWN) {
            let _ = write!(text, "\n{question}");
            for ((program, _), reply) in self.sides.iter().zip([one, other]) {
                let _ = write!(text, "\n  {}: {}", program.name, show(reply));
            }
        }
        text
    }
}

/// Returns the reply to each question.
fn ask_all(server: SocketAddr, questions: &[String]) -> Result<Vec<Vec<u8>>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(RESEND))?;
    let mut replies = vec![Vec::new(); questions.len()];
    let packets: Vec<_> = questions
        .iter()
        .map(|question| query(&format!("{question} +edns")))
        .collect();
    for start in (0..packets.len()).step_by(WINDOW) {
        let end = packets.len().min(start + WINDOW);
        let mut waiting: BTreeSet<usize> = (start..end).collect();
        let mut attempts = 0;
        while !waiting.is_empty() {
            for index in &waiting {
                let id = u16::try_from(index - start)?;
                socket.send(&packets[*index].with_id(id).0)?;
            }
            attempts += 1;
            ensure!(attempts < 10, "{server} does not answer");
            while !waiting.is_empty() {
                let reply = match read_datagram(&socket) {
                    Ok(reply) => reply,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                };
                let index = start + usize::from(u16::from_be_bytes([reply[0], reply[1]]));
                // A late reply to the same ID of an earlier window has another question.
                let question = &packets[index.min(end - 1)].0[12..];
                let length = question.iter().position(|octet| *octet == 0).unwrap_or(0) + 5;
                if reply.get(12..12 + length) == Some(&question[..length]) && waiting.remove(&index)
                {
                    replies[index] = reply;
                }
            }
        }
    }
    Ok(replies)
}

fn is_truncated(reply: &[u8]) -> bool {
    reply[2] & 0x02 != 0
}

fn content(octets: &[u8]) -> Result<Content> {
    let read = Reply::read_with_place_of_options(octets);
    let (reply, _) = read.map_err(|error| anyhow::anyhow!("{error}"))?;
    let sections = [&reply.answers, &reply.authority, &reply.additional];
    Ok((
        reply.bits,
        reply.rcode,
        sections.map(|section| sorted_texts(section)),
        reply.opt.map(|opt| format!("{opt:?}")),
    ))
}

fn show((bits, rcode, sections, opt): &Content) -> String {
    let [answers, authority, additional] = sections;
    format!(
        "bits {bits:#06x}, code {rcode}, answers {answers:?}, authority {authority:?}, additional {additional:?}, {}",
        opt.as_deref().unwrap_or("no OPT")
    )
}

// === impl Outcome ===

impl Outcome {
    fn count(&mut self, reply: &[u8]) {
        self.questions += 1;
        let has_answers = reply[6..8] != [0, 0];
        let [data, nodata, nxdomain, servfail] = KINDS;
        let kind = match (reply[3] & 0x0f, has_answers) {
            (0, true) => data,
            (0, false) => nodata,
            (2, _) => servfail,
            (NXDOMAIN, _) => nxdomain,
            _ => "others",
        };
        let truncated = is_truncated(reply).then_some("truncated");
        for kind in [kind].into_iter().chain(truncated) {
            self.kinds.entry(kind).or_insert([0, 1])[0] += 1;
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.events += other.events;
        self.questions += other.questions;
        for (kind, counts) in &other.kinds {
            let sum = self.kinds.entry(kind).or_default();
            *sum = [sum[0] + counts[0], sum[1] + counts[1]];
        }
        for (rule, counts) in &other.rules {
            let sum = self.rules.entry(*rule).or_default();
            *sum = [sum[0] + counts[0], sum[1] + counts[1]];
        }
    }

    /// Returns the numbers of replies by kind and by rule, each with the share of the worlds that have some.
    pub fn counts(&self) -> String {
        let share = |name: String, [replies, worlds]: [usize; 2]| {
            let share = 100 * worlds / self.worlds.max(1);
            format!("{replies} {name} ({share} % of worlds)")
        };
        let kinds = self
            .kinds
            .iter()
            .map(|(kind, counts)| share((*kind).to_owned(), *counts));
        let rules = self
            .rules
            .iter()
            .map(|(rule, counts)| share(format!("{rule:?}"), *counts));
        let [kinds, rules] = [kinds.collect::<Vec<_>>(), rules.collect()].map(|all| all.join(", "));
        let (events, questions) = (self.events, self.questions);
        format!(
            "{events} events; {questions} questions: {kinds}; by rule: {rules}; no other difference"
        )
    }

    /// Fails if a kind of reply did not occur.
    pub fn assert_covers_all(&self) {
        let has = |kind: &&str| {
            self.kinds
                .get(kind)
                .is_some_and(|[replies, _]| *replies > 100)
        };
        assert!(KINDS.iter().all(has), "{self:?}");
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.seed;
        if !self.skipped.is_empty() {
            return write!(
                f,
                "world {seed}: not compared, a binary lacks {:?}",
                self.skipped
            );
        }
        let (took, markers) = (self.took, self.markers);
        write!(
            f,
            "world {seed} ({took:.1?}, {markers} markers): {}",
            self.counts()
        )
    }
}

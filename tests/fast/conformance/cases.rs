//! Test cases: a query and the expected reply. Each is sent over UDP and TCP, and the whole reply is compared.

use std::collections::BTreeSet;
use std::io::Write as _;

use support::differences::assert_none;
use support::query::{Packet, hex, octets, query};
use support::reply::{Opt, Reply, sorted_texts};
use support::server::Server;
use support::wire::{Transport, read_datagram, read_framed_or_end};

/// A query and the expected reply.
struct Case {
    question: String,
    packet: Packet,
    expect: Expectation,
}

/// An expected reply. By default it has an OPT record if the query has one, with the query's DO bit and no options.
#[derive(Clone)]
pub struct Expectation {
    /// The server sends no reply.
    is_dropped: bool,
    rcode: u16,
    is_authoritative: bool,
    /// The reply repeats the question; `None`: the default of the case.
    has_question: Option<bool>,
    answer: BTreeSet<String>,
    authority: BTreeSet<String>,
    additional: BTreeSet<String>,
    options: Vec<String>,
    options_over_tcp: Vec<String>,
    /// The reply has an OPT record; `None`: the default of the case.
    has_opt: Option<bool>,
    /// The UDP payload size in the OPT record.
    payload: u16,
    /// The number of answers that fit over UDP, where TC is set.
    fits_udp: Option<usize>,
}

/// Returns whether a query has an OPT record. Every mark adds one, except those for the header.
fn has_opt(question: &str) -> bool {
    let is_of_header = |mark: &str| {
        let header = ["aa", "tc", "rd", "ra", "z", "ad", "cd"];
        header.contains(&mark) || mark.starts_with("opcode=")
    };
    let mut marks = question
        .split(' ')
        .filter_map(|word| word.strip_prefix('+'));
    marks.any(|mark| !is_of_header(mark))
}

/// NOERROR, authoritative, with exactly these answer records, in any order.
pub fn answer(records: &str) -> Expectation {
    Expectation {
        is_authoritative: true,
        answer: lines(records),
        ..rcode_only(0)
    }
}

/// The answer with the only address of `west.db.prod.global.`
pub fn west() -> Expectation {
    answer("west.db.prod.global. 5 IN A 10.96.20.1")
}

/// The answer with the SOA record of `global.`
pub fn soa() -> Expectation {
    answer(SOA)
}

/// NOERROR, authoritative, no answer, the SOA record of `global.`
pub fn nodata() -> Expectation {
    answer("").authority(SOA)
}

/// NXDOMAIN, authoritative, the SOA record of `global.`
pub fn nxdomain() -> Expectation {
    Expectation {
        rcode: 3,
        ..nodata()
    }
}

/// FORMERR and the question.
pub fn formerr() -> Expectation {
    rcode_only(1)
}

/// NOTIMP and the question.
pub fn notimp() -> Expectation {
    rcode_only(4)
}

/// REFUSED and the question.
pub fn refused() -> Expectation {
    rcode_only(5)
}

/// BADVERS and the question.
pub fn badvers() -> Expectation {
    rcode_only(16)
}

/// No reply.
pub fn no_reply() -> Expectation {
    Expectation {
        is_dropped: true,
        ..rcode_only(0)
    }
}

/// The SOA record of `global.`, with a placeholder for the serial.
pub const SOA: &str = "global. 5 IN SOA ns.dns.global. hostmaster.global. SERIAL 7200 1800 86400 5";

fn rcode_only(rcode: u16) -> Expectation {
    Expectation {
        is_dropped: false,
        rcode,
        is_authoritative: false,
        has_question: None,
        answer: BTreeSet::new(),
        authority: BTreeSet::new(),
        additional: BTreeSet::new(),
        options: Vec::new(),
        options_over_tcp: Vec::new(),
        has_opt: None,
        payload: 1232,
        fits_udp: None,
    }
}

fn lines(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

// === impl Expectation ===

impl Expectation {
    /// Sets the records of the authority section.
    pub fn authority(mut self, records: &str) -> Self {
        self.authority = lines(records);
        self
    }

    /// Sets the records of the additional section.
    pub fn additional(mut self, records: &str) -> Self {
        self.additional = lines(records);
        self
    }

    /// Clears the AA bit.
    pub fn not_authoritative(mut self) -> Self {
        self.is_authoritative = false;
        self
    }

    /// Adds an EDNS option in the syntax of [`option_texts`]: `EDE 20`.
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// Adds an EDNS option that is expected over TCP only.
    pub fn option_over_tcp(mut self, option: &str) -> Self {
        self.options_over_tcp.push(option.to_owned());
        self
    }

    /// Over UDP, expects TC and this number of records. Over TCP, expects all records.
    pub fn truncated_to(mut self, records: usize) -> Self {
        self.fits_udp = Some(records);
        self
    }

    /// Expects the question in the reply to raw octets.
    pub fn with_question(mut self) -> Self {
        self.has_question = Some(true);
        self
    }

    /// Expects an OPT record, with DO clear, in the reply to raw octets.
    pub fn with_opt(mut self) -> Self {
        self.has_opt = Some(true);
        self
    }

    /// Sets the UDP payload size in the OPT record.
    pub fn payload(mut self, octets: u16) -> Self {
        self.payload = octets;
        self
    }
}

// === Sending and comparing ===

/// A query and the expected reply. The query is a text for [`query`], or octets for [`octets`]. By default, the reply to octets has
/// no question and no OPT record.
pub type Asked<'a> = (&'a str, Expectation);

/// Sends every query over UDP and TCP, and asserts the replies. Reports all differences at once.
pub fn check(server: &Server, cases: &[Asked<'_>]) {
    let mut differences = Vec::new();
    for (question, expect) in cases {
        let case = Case::new(question, expect.clone());
        for over in Transport::BOTH {
            if let Err(difference) = case.run(server, over) {
                differences.push(format!("{question} over {over:?}:\n{difference}\n"));
            }
        }
    }
    assert_none(&differences);
}

/// Sends each query without EDNS, with EDNS, and with the DO bit, over UDP and TCP, and asserts the replies.
pub fn check_with_edns_and_without(server: &Server, questions: &[Asked<'_>]) {
    for edns in ["", " +edns", " +do"] {
        let questions = questions.iter().map(|(question, expect)| {
            let mut expect = expect.clone();
            if edns.is_empty() {
                // Options need an OPT record.
                expect.options.clear();
            }
            (format!("{question}{edns}"), expect)
        });
        let questions: Vec<(String, Expectation)> = questions.collect();
        let cases = questions.iter();
        let cases = cases.map(|(question, expect)| (question.as_str(), expect.clone()));
        check(server, &cases.collect::<Vec<_>>());
    }
}

/// Decodes a reply. Fails if a decoder fails, or if the decoders disagree.
pub fn decode(octets: &[u8]) -> Reply {
    Reply::read(octets).unwrap_or_else(|error| panic!("{error}\n{}", hex(octets)))
}

/// Sends a message that should get no reply; returns the reply if there is one.
///
/// A test cannot wait for the absence of a reply. A second query follows the message; if its reply comes first, the
/// message got none.
fn send_before_query(server: &Server, packet: &Packet, over: Transport) -> Option<Vec<u8>> {
    let second = query("global. SOA");
    let reply = match over {
        Transport::Udp => {
            let socket = server.socket();
            socket.send(&packet.0).unwrap();
            socket.send(&second.0).unwrap();
            Some(read_datagram(&socket).expect("a reply over UDP"))
        }
        Transport::Tcp => {
            let mut stream = server.connect();
            // The server may close the connection before it has read the second message.
            let _ = stream.write_all(&[packet.framed(), second.framed()].concat());
            read_framed_or_end(&mut stream)
        }
    };
    reply.filter(|reply| reply[..2] != second.0[..2])
}

impl Case {
    fn new(question: &str, expect: Expectation) -> Self {
        // The name of a question ends with a dot.
        let is_text = question
            .split(' ')
            .next()
            .is_some_and(|name| name.ends_with('.'));
        let has_opt = is_text && has_opt(question);
        Self {
            question: question.to_owned(),
            packet: if is_text {
                query(question)
            } else {
                octets(question)
            },
            expect: Expectation {
                has_question: expect.has_question.or(Some(is_text)),
                has_opt: expect.has_opt.or(Some(has_opt)),
                ..expect
            },
        }
    }

    fn run(&self, server: &Server, over: Transport) -> Result<(), String> {
        if self.expect.is_dropped {
            return match send_before_query(server, &self.packet, over) {
                None => Ok(()),
                Some(reply) => Err(format!("expected no reply, got {}", hex(&reply))),
            };
        }
        let reply = server.send(&self.packet, over).ok_or("no reply")?;
        assert_octets(&self.packet, &reply, over);
        let message = decode(&reply);
        let mut expected = self.expected_lines(over);
        let mut got = reply_lines(&message);
        if let (Some(count), Transport::Udp) = (self.expect.fits_udp, over) {
            // Any of the records, each at most once, in the expected number.
            let parts = sorted_texts(&message.answers);
            let is_part = parts.iter().all(|a| self.expect.answer.contains(a));
            let parts: BTreeSet<_> = parts.into_iter().collect();
            expected.retain(|line| !line.starts_with("answer"));
            got.retain(|line| !line.starts_with("answer"));
            expected.push(format!("{count} of the answers: true"));
            got.push(format!(
                "{} of the answers: {}",
                parts.len(),
                is_part && parts.len() == message.answers.len()
            ));
        }
        if expected == got {
            return Ok(());
        }
        let missing = expected.iter().filter(|line| !got.contains(line));
        let surplus = got.iter().filter(|line| !expected.contains(line));
        let missing = missing.map(|line| format!("  expected  {line}"));
        let surplus = surplus.map(|line| format!("  got       {line}"));
        Err(missing.chain(surplus).collect::<Vec<_>>().join("\n"))
    }

    /// Returns the expected reply as lines.
    fn expected_lines(&self, over: Transport) -> Vec<String> {
        let expect = &self.expect;
        let bits = self.packet.bits();
        let is_truncated = expect.fits_udp.is_some() && over == Transport::Udp;
        let flags = [
            ("aa", expect.is_authoritative),
            ("tc", is_truncated),
            ("rd", bits & 0x0100 != 0),
        ];
        let flags = flags.iter().filter(|(_, is_set)| *is_set);
        let flags: String = flags.map(|(flag, _)| format!(" {flag}")).collect();
        let mut lines = vec![
            format!("status {}, opcode {}", expect.rcode, bits >> 11 & 0x0f),
            format!("flags qr{flags}"),
            format!("question: {}", expect.has_question == Some(true)),
        ];
        let sections = [
            ("answer", &expect.answer),
            ("authority", &expect.authority),
            ("additional", &expect.additional),
        ];
        for (name, records) in sections {
            let records = records
                .iter()
                .filter(|_| !(is_truncated && name == "additional"));
            lines.extend(records.map(|record| format!("{name}: {record}")));
        }
        if expect.has_opt == Some(true) {
            let do_bit = if self.has_do() { " do" } else { "" };
            lines.push(format!("OPT: version 0, udp {}{do_bit}", expect.payload));
            let tcp = expect
                .options_over_tcp
                .iter()
                .filter(|_| over == Transport::Tcp);
            let mut options: Vec<&String> = expect.options.iter().chain(tcp).collect();
            options.sort();
            lines.extend(options.iter().map(|option| format!("option: {option}")));
        }
        lines
    }

    fn has_do(&self) -> bool {
        let mut marks = self.question.split(' ');
        marks.any(|mark| mark == "+do" || mark.starts_with("+ednsflags=0x8"))
    }
}

/// Returns a reply as lines, in the same format.
fn reply_lines(reply: &Reply) -> Vec<String> {
    let mut lines = vec![
        format!("status {}, opcode {}", reply.rcode, reply.opcode),
        format!("flags {}", reply.flags()),
        format!("question: {}", !reply.questions.is_empty()),
    ];
    let sections = [
        ("answer", &reply.answers),
        ("authority", &reply.authority),
        ("additional", &reply.additional),
    ];
    for (name, records) in sections {
        let texts = sorted_texts(records).into_iter();
        lines.extend(texts.map(|record| format!("{name}: {record}")));
    }
    if let Some(opt) = &reply.opt {
        let do_bit = match opt.flags {
            0 => String::new(),
            0x8000 => " do".to_owned(),
            other => format!(" flags {other:#06x}"),
        };
        let (version, payload) = (opt.version, opt.payload);
        lines.push(format!("OPT: version {version}, udp {payload}{do_bit}"));
        let mut options: Vec<String> = option_texts(opt).collect();
        options.sort(); // the order of options is not significant
        lines.extend(options.iter().map(|option| format!("option: {option}")));
    }
    lines
}

/// Asserts the identifier of a reply, the octets of its question, and its size over UDP.
fn assert_octets(packet: &Packet, reply: &[u8], over: Transport) {
    assert_eq!(reply[..2], packet.0[..2], "the identifier differs");
    if reply[4..6] != [0, 0] {
        let end = 12 + reply[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
        assert_eq!(reply[12..end], packet.0[12..end], "the question differs");
    }
    assert!(
        over == Transport::Tcp || reply.len() <= 1232,
        "the datagram is too long"
    );
}

/// Returns options as text.
fn option_texts(opt: &Opt) -> impl Iterator<Item = String> {
    opt.options.iter().map(|(code, value)| {
        let number = || u16::from_be_bytes([value[0], value[1]]);
        match code {
            3 => format!("NSID {}", hex(value)),
            11 => format!("KEEPALIVE {}", number()),
            15 => format!("EDE {}", number()),
            other => format!("OPTION {other} {}", hex(value)),
        }
    })
}

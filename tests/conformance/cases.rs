//! Tables of question and expected answer. Each case is asked over UDP and over TCP; replies are compared whole.

use std::collections::BTreeSet;
use std::io::Write as _;

use support::differences::assert_none;
use support::query::{Packet, hex, octets, query};
use support::reply::{Opt, Reply, sorted_texts};
use support::server::Server;
use support::wire::{Over, read_datagram, read_framed_or_end};

use crate::second_decoder;

/// A question and what it should get.
pub struct Case {
    what: String,
    asked: String,
    packet: Packet,
    expect: Expect,
}

/// What a question should get. The OPT record follows from the question: there is one if it has one, with its DO bit
/// and without options, unless the case says more.
#[derive(Clone)]
pub struct Expect {
    /// Nothing is sent.
    is_dropped: bool,
    rcode: u16,
    is_authoritative: bool,
    /// The question comes back, as it was; `None`: as usual.
    has_question: Option<bool>,
    answer: BTreeSet<String>,
    authority: BTreeSet<String>,
    additional: BTreeSet<String>,
    options: Vec<String>,
    options_over_tcp: Vec<String>,
    /// There is an OPT record; `None`: as usual.
    has_opt: Option<bool>,
    /// What the OPT record says we take over UDP.
    payload: u16,
    /// Over UDP only so many of the answers fit, and TC is set.
    fits_udp: Option<usize>,
}

/// A case whose question is written as in [`query`].
pub fn case(what: &str, asked: &str, expect: Expect) -> Case {
    Case {
        what: what.to_owned(),
        asked: asked.to_owned(),
        packet: query(asked),
        expect: Expect {
            has_question: expect.has_question.or(Some(true)),
            has_opt: expect.has_opt.or(Some(has_opt(asked))),
            ..expect
        },
    }
}

/// Any mark but those of the header brings an OPT record.
fn has_opt(asked: &str) -> bool {
    let is_of_header = |mark: &str| {
        let header = ["aa", "tc", "rd", "ra", "z", "ad", "cd"];
        header.contains(&mark) || mark.starts_with("opcode=")
    };
    let mut marks = asked.split(' ').filter_map(|word| word.strip_prefix('+'));
    marks.any(|mark| !is_of_header(mark))
}

/// A case whose query is written octet by octet, as in [`octets`]. No question and no OPT record are expected back,
/// unless the case says otherwise.
pub fn raw(what: &str, packet: &str, expect: Expect) -> Case {
    Case {
        what: what.to_owned(),
        asked: packet.to_owned(),
        packet: octets(packet),
        expect: Expect {
            has_question: expect.has_question.or(Some(false)),
            has_opt: expect.has_opt.or(Some(false)),
            ..expect
        },
    }
}

/// NOERROR, authoritative, exactly these records in any order, nothing else.
pub fn answer(records: &str) -> Expect {
    Expect {
        is_authoritative: true,
        answer: lines(records),
        ..code(0)
    }
}

/// NOERROR, authoritative, no record, the SOA record of `global.`
pub fn nodata() -> Expect {
    answer("").authority(SOA)
}

/// NXDOMAIN, authoritative, the SOA record of `global.`
pub fn nxdomain() -> Expect {
    Expect {
        rcode: 3,
        ..nodata()
    }
}

/// A code alone, with the question.
pub fn formerr() -> Expect {
    code(1)
}

/// A code alone, with the question.
pub fn servfail() -> Expect {
    code(2)
}

/// A code alone, with the question.
pub fn notimp() -> Expect {
    code(4)
}

/// A code alone, with the question.
pub fn refused() -> Expect {
    code(5)
}

/// A code alone, with the question.
pub fn badvers() -> Expect {
    code(16)
}

/// NOERROR, and nothing but what the case adds.
pub fn empty() -> Expect {
    code(0)
}

/// No reply at all.
pub fn dropped() -> Expect {
    Expect {
        is_dropped: true,
        ..code(0)
    }
}

/// The SOA record of `global.`; serials differ.
pub const SOA: &str = "global. 5 IN SOA ns.dns.global. hostmaster.global. SERIAL 7200 1800 86400 5";

fn code(rcode: u16) -> Expect {
    Expect {
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

// === impl Expect ===

impl Expect {
    /// These records in the authority section.
    pub fn authority(mut self, records: &str) -> Self {
        self.authority = lines(records);
        self
    }

    /// These records in the additional section.
    pub fn additional(mut self, records: &str) -> Self {
        self.additional = lines(records);
        self
    }

    /// The AA bit is clear.
    pub fn not_authoritative(mut self) -> Self {
        self.is_authoritative = false;
        self
    }

    /// An EDNS option, as [`Case`]s show it: `EDE 20`.
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// An EDNS option that is there over TCP only.
    pub fn option_over_tcp(mut self, option: &str) -> Self {
        self.options_over_tcp.push(option.to_owned());
        self
    }

    /// TC over UDP, where only so many records fit; everything over TCP.
    pub fn truncated_to(mut self, records: usize) -> Self {
        self.fits_udp = Some(records);
        self
    }

    /// The reply to raw octets has the question.
    pub fn echoing(mut self) -> Self {
        self.has_question = Some(true);
        self
    }

    /// The reply to raw octets has an OPT record, with DO clear.
    pub fn with_opt(mut self) -> Self {
        self.has_opt = Some(true);
        self
    }

    /// The OPT record says that we take so many octets over UDP.
    pub fn payload(mut self, octets: u16) -> Self {
        self.payload = octets;
        self
    }
}

// === Asking and comparing ===

/// Asks every case over UDP and over TCP. Fails with all differences at once.
pub fn check(server: &Server, cases: &[Case]) {
    let mut differences = Vec::new();
    for case in cases {
        for over in Over::BOTH {
            if let Err(difference) = case.ask(server, over) {
                let (what, asked) = (&case.what, &case.asked);
                differences.push(format!("{what} ({asked}) over {over:?}:\n{difference}\n"));
            }
        }
    }
    assert_none(&differences);
}

/// Asks each question as it is, with EDNS, and with the DO bit, over UDP and over TCP.
pub fn check_with_edns_and_without(server: &Server, questions: &[(&str, Expect)]) {
    let cases = questions.iter().flat_map(|(asked, expect)| {
        ["", " +edns", " +do"].map(|edns| {
            let mut expect = expect.clone();
            if edns.is_empty() {
                // There is nothing that could carry them.
                expect.options.clear();
            }
            case("", &format!("{asked}{edns}"), expect)
        })
    });
    check(server, &cases.collect::<Vec<_>>());
}

/// Reads a reply. Fails if a decoder cannot, or if they disagree.
pub fn decode(octets: &[u8]) -> Reply {
    let reply = Reply::read(octets);
    let reply = reply.unwrap_or_else(|error| panic!("{error}\n{}", hex(octets)));
    second_decoder::check_same(octets, &reply);
    reply
}

/// Sends a message that should not be answered; returns the reply if there is one.
///
/// Nobody can wait for nothing: a question is sent behind the message, and the first reply shows which was answered.
fn ask_before_another(server: &Server, packet: &Packet, over: Over) -> Option<Vec<u8>> {
    let another = query("global. SOA");
    let reply = match over {
        Over::Udp => {
            let socket = server.socket();
            socket.send(&packet.0).unwrap();
            socket.send(&another.0).unwrap();
            Some(read_datagram(&socket).expect("a reply over UDP"))
        }
        Over::Tcp => {
            let mut stream = server.connect();
            // The connection may be closed before the second message is through.
            let _ = stream.write_all(&[packet.framed(), another.framed()].concat());
            read_framed_or_end(&mut stream)
        }
    };
    reply.filter(|reply| reply[..2] != another.0[..2])
}

impl Case {
    fn ask(&self, server: &Server, over: Over) -> Result<(), String> {
        if self.expect.is_dropped {
            return match ask_before_another(server, &self.packet, over) {
                None => Ok(()),
                Some(reply) => Err(format!("expected no reply, got {}", hex(&reply))),
            };
        }
        let reply = server.send(&self.packet, over).ok_or("no reply")?;
        check_octets(&self.packet, &reply, over);
        let message = decode(&reply);
        let mut expected = self.expected(over);
        let mut got = seen(&message);
        if let (Some(count), Over::Udp) = (self.expect.fits_udp, over) {
            // Any of the records, but so many, each once.
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

    /// What is expected, in lines that can be compared.
    fn expected(&self, over: Over) -> Vec<String> {
        let expect = &self.expect;
        let bits = self.packet.bits();
        let is_cut = expect.fits_udp.is_some() && over == Over::Udp;
        let flags = [
            ("aa", expect.is_authoritative),
            ("tc", is_cut),
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
            let records = records.iter().filter(|_| !(is_cut && name == "additional"));
            lines.extend(records.map(|record| format!("{name}: {record}")));
        }
        if expect.has_opt == Some(true) {
            let do_bit = if self.has_do() { " do" } else { "" };
            lines.push(format!("OPT: version 0, udp {}{do_bit}", expect.payload));
            let tcp = expect.options_over_tcp.iter().filter(|_| over == Over::Tcp);
            let mut options: Vec<&String> = expect.options.iter().chain(tcp).collect();
            options.sort();
            lines.extend(options.iter().map(|option| format!("option: {option}")));
        }
        lines
    }

    fn has_do(&self) -> bool {
        let mut marks = self.asked.split(' ');
        marks.any(|mark| mark == "+do" || mark.starts_with("+ednsflags=0x8"))
    }
}

/// What a reply holds, in the same lines.
fn seen(reply: &Reply) -> Vec<String> {
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
        options.sort(); // their order means nothing
        lines.extend(options.iter().map(|option| format!("option: {option}")));
    }
    lines
}

/// What holds for the octets of every reply: the identifier, the question octet by octet, the size over UDP.
fn check_octets(packet: &Packet, reply: &[u8], over: Over) {
    assert_eq!(reply[..2], packet.0[..2], "the identifier");
    if reply[4..6] != [0, 0] {
        let end = 12 + reply[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
        assert_eq!(reply[12..end], packet.0[12..end], "the question");
    }
    assert!(over == Over::Tcp || reply.len() <= 1232, "a long datagram");
}

/// Options as people read them; of a cookie, the client's half and the length of the server's.
fn option_texts(opt: &Opt) -> impl Iterator<Item = String> {
    opt.options.iter().map(|(code, value)| {
        let number = || u16::from_be_bytes([value[0], value[1]]);
        match code {
            3 => format!("NSID {}", hex(value)),
            10 => {
                let (client, server) = value.split_at(8);
                format!("COOKIE {} and {} octets", hex(client), server.len())
            }
            11 => format!("KEEPALIVE {}", number()),
            15 => format!("EDE {}", number()),
            other => format!("OPTION {other} {}", hex(value)),
        }
    })
}

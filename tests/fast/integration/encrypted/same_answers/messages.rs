//! Generated test messages: queries for existing and similar names with all client options, and malformed messages.
//! Every run has the same messages.

use fastrand::Rng;
use support::query::{Edns, Parts, wire};

/// The kind of a message, which determines the servers that can answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A query of class IN for a data type. All servers answer it from the zone.
    Plain,
    /// A well-formed message with an unusual opcode, class, type, version or option.
    Odd,
    /// A message with changed octets.
    Broken,
}

/// A message and known properties of its reply.
pub struct TestMessage {
    pub what: String,
    pub packet: Vec<u8>,
    pub kind: Kind,
    /// Maximum size of a reply over UDP. `None`: unknown.
    pub udp_limit: Option<usize>,
    /// Whether the message has a valid padding option. `None`: unknown.
    pub asks_for_padding: Option<bool>,
}

const NSID: u16 = 3;
const SUBNET: u16 = 8;
const COOKIE: u16 = 10;
const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;

/// Query types. Common ones occur more often.
const TYPES: [u16; 20] = [
    1, 1, 1, 28, 28, 33, 33, 33, 6, 2, 16, 12, 15, 5, 43, 64, 65, 257, 666, 65_280,
];
/// Types that are not data types or that query several types.
const META_TYPES: [u16; 10] = [0, 41, 249, 250, 251, 252, 253, 254, 255, 65_535];
const CLASSES: [u16; 7] = [0, 2, 3, 4, 254, 255, 999];
const PAYLOADS: [u16; 9] = [0, 511, 512, 513, 1_000, 1_231, 1_232, 4_096, 65_535];

/// Labels that change a name to another existing or missing name.
const LABELS: [&str; 16] = [
    "x",
    "east",
    "west",
    "hub",
    "db",
    "prod",
    "kafka",
    "_tcp",
    "_udp",
    "_sql",
    "*",
    "global",
    "ns",
    "dns",
    "north-1",
    "10-96-0-1",
];

/// Generates messages for a zone with these owner names.
pub fn generate(seed: u64, owners: &[&str], count: usize) -> Vec<TestMessage> {
    let mut rng = Rng::with_seed(seed);
    let of_index = |index: usize| {
        let parts = parts(&mut rng, owners, index % 3 == 2);
        let mut asked = TestMessage::of(&parts);
        if index % 4 == 3 {
            let before = asked.packet.clone();
            corrupt(&mut rng, &mut asked.packet);
            if asked.packet[2..] != before[2..] {
                asked.kind = Kind::Broken;
                (asked.udp_limit, asked.asks_for_padding) = (None, None);
            }
        }
        asked.packet[..2].copy_from_slice(&rng.u16(..).to_be_bytes());
        asked.what = format!("message {index} ({:?})", asked.kind);
        asked
    };
    (0..count).map(of_index).collect()
}

// === Well-formed messages ===

fn parts(rng: &mut Rng, owners: &[&str], is_odd: bool) -> Parts {
    let mut parts = Parts {
        labels: name(rng, owners),
        rtype: *choose(rng, &TYPES),
        class: 1,
        bits: 0,
        edns: None,
    };
    // RD, AD and CD can occur in any query.
    parts.bits = rng.u16(..) & 0x0130;
    if rng.u8(..3) > 0 {
        parts.edns = Some(edns(rng, is_odd));
    }
    if is_odd {
        match rng.u8(..6) {
            0 => parts.rtype = *choose(rng, &META_TYPES),
            1 => parts.class = *choose(rng, &CLASSES),
            2 => parts.bits |= rng.u16(..) & 0x7800, // opcode
            3 => parts.bits |= rng.u16(..) & 0x06cf, // AA, TC, RA, Z, RCODE
            4 => {
                let names = [
                    &["version", "bind"][..],
                    &["id", "server"],
                    &["hostname", "bind"],
                ];
                let name = choose(rng, &names).iter();
                parts.labels = name.map(|label| label.as_bytes().to_vec()).collect();
                (parts.class, parts.rtype) = (3, *choose(rng, &[16, 16, 255, 1]));
            }
            _ => {}
        }
    }
    parts
}

fn edns(rng: &mut Rng, is_odd: bool) -> Edns {
    let mut edns = Edns {
        payload: *choose(rng, &PAYLOADS),
        rcode: 0,
        version: 0,
        flags: if rng.u8(..3) == 0 { 0x8000 } else { 0 },
        options: Vec::new(),
    };
    if is_odd {
        for _ in 0..rng.u8(..4) {
            edns.options.push(option(rng));
        }
        match rng.u8(..6) {
            0 => edns.version = rng.u8(..),
            1 => edns.rcode = rng.u8(..),
            2 => edns.flags = rng.u16(..),
            _ => {}
        }
    }
    edns
}

fn option(rng: &mut Rng) -> (u16, Vec<u8>) {
    let any = |rng: &mut Rng, length: usize| (0..length).map(|_| rng.u8(..)).collect();
    match rng.u8(..9) {
        0 | 1 => {
            let length = rng.usize(..200);
            (PADDING, vec![0; length])
        }
        2 => (NSID, Vec::new()),
        3 => (COOKIE, any(rng, 8)),
        // Cookies of any length are ignored.
        4 => {
            let length = *choose(rng, &[24, 16, 40, 7, 9, 15, 41, 0]);
            (COOKIE, any(rng, length))
        }
        5 => (KEEPALIVE, vec![0; 2 * rng.usize(..2)]),
        6 => (SUBNET, vec![0, 1, 24, 0, 192, 0, 2]),
        7 => (NSID, vec![1, 2, 3]),
        _ => {
            let (code, length) = (65_001 + rng.u16(..3), rng.usize(..9));
            (code, any(rng, length))
        }
    }
}

fn name(rng: &mut Rng, owners: &[&str]) -> Vec<Vec<u8>> {
    let owner = choose(rng, owners);
    let labels = owner.split('.').filter(|label| !label.is_empty());
    let mut labels: Vec<Vec<u8>> = labels.map(|label| label.as_bytes().to_vec()).collect();
    let label = choose(rng, &LABELS).as_bytes().to_vec();
    let at = rng.usize(..labels.len());
    match rng.u8(..20) {
        0..9 => {}
        // A name above the zone.
        9 | 10 => drop(labels.drain(..at)),
        11 => drop(labels.remove(at)),
        12 => labels.insert(at, label),
        13 => labels.insert(0, label),
        14 => labels[at] = label,
        15 => labels[at].push(b'x'),
        // A name with the suffix of a search list, and names of other zones.
        16 => labels.extend([b"svc".to_vec(), b"global".to_vec()]),
        17 => labels = vec![b"www".to_vec(), b"example".to_vec()],
        // Octets that hostnames do not contain.
        18 => {
            let length = 1 + rng.usize(..63);
            labels[at] = (0..length).map(|_| rng.u8(..)).collect();
        }
        _ => labels.clear(),
    }
    if rng.u8(..3) == 0 {
        for octet in labels.iter_mut().flatten().filter(|_| rng.bool()) {
            octet.make_ascii_uppercase();
        }
    }
    while wire(&labels).len() > 255 {
        labels.pop();
    }
    labels
}

fn choose<'c, T>(rng: &mut Rng, from: &'c [T]) -> &'c T {
    &from[rng.usize(..from.len())]
}

// === Malformed messages ===

/// Changes a message but keeps it a query with a complete header, so that it gets a reply.
fn corrupt(rng: &mut Rng, packet: &mut Vec<u8>) {
    for _ in 0..1 + rng.usize(..3) {
        let at = rng.usize(2..packet.len());
        match rng.u8(..9) {
            0 | 1 => packet[at] = rng.u8(..),
            2 => packet.truncate(at.max(12)),
            3 => packet.extend((0..rng.usize(..40)).map(|_| rng.u8(..))),
            4 => {
                // Changes one of the counts.
                let count = 4 + 2 * rng.usize(..4);
                packet[count + 1] = rng.u8(..4);
                packet[count] = if rng.u8(..8) == 0 { rng.u8(..) } else { 0 };
            }
            // Repeats a part of the message.
            5 => packet.extend_from_within(at.max(12)..),
            6 => packet.insert(at.max(12), 0xc0),
            7 => drop(packet.remove(packet.len() - 1)),
            _ => {
                let other = rng.usize(2..packet.len());
                packet.swap(at, other);
            }
        }
        packet.resize(packet.len().clamp(12, 4_096), 0);
        packet[2] &= 0x7f;
    }
}

// === impl TestMessage ===

impl TestMessage {
    fn of(parts: &Parts) -> Self {
        let is_data = !META_TYPES.contains(&parts.rtype);
        let is_plain_opt = |opt: &Edns| {
            let fields = (opt.rcode, opt.version, opt.flags & 0x7fff);
            fields == (0, 0, 0) && opt.options.is_empty()
        };
        let is_plain = is_data
            && parts.class == 1
            && parts.bits & !0x0130 == 0
            && parts.edns.as_ref().is_none_or(is_plain_opt);
        // Options of other EDNS versions are unknown.
        let options = parts.edns.as_ref().filter(|opt| opt.version == 0);
        let asks = options.is_some_and(|opt| opt.options.iter().any(|(code, _)| *code == PADDING));
        let limit = |opt: &Edns| usize::from(opt.payload.clamp(512, 1_232));
        Self {
            what: String::new(),
            packet: parts.packet(0).0,
            kind: if is_plain { Kind::Plain } else { Kind::Odd },
            udp_limit: Some(parts.edns.as_ref().map_or(512, limit)),
            asks_for_padding: (parts.edns.is_none() || options.is_some()).then_some(asks),
        }
    }

    /// Creates a message with unknown properties.
    pub fn plain(what: &str, packet: Vec<u8>) -> Self {
        Self {
            what: what.to_owned(),
            packet,
            kind: Kind::Plain,
            udp_limit: None,
            asks_for_padding: None,
        }
    }

    /// Returns the message with ID 0, as DNS over QUIC requires (RFC 9250 section 4.2.1).
    pub fn with_id_zero(&self) -> Vec<u8> {
        [&[0, 0], &self.packet[2..]].concat()
    }
}

//! Replies without the parts that may differ: options that depend on the transport, and the part of a cookie with the
//! time.

const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;
const COOKIE: u16 = 10;
const OPT: u16 = 41;
/// Replies are padded to multiples of this size (RFC 8467 section 4.1).
const BLOCK: usize = 468;

/// A normalized reply and the removed options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normal {
    pub octets: Vec<u8>,
    pub keepalive: Option<Vec<u8>>,
    pub padding: Option<Vec<u8>>,
}

impl Normal {
    /// Normalizes a reply. Fails if it is malformed.
    pub fn of(reply: &[u8], query: &[u8]) -> Self {
        let mut normal = Self {
            octets: reply.to_vec(),
            keepalive: None,
            padding: None,
        };
        let Some((start, end)) = options_of(reply) else {
            return normal;
        };
        let (mut kept, mut rest) = (Vec::new(), &reply[start..end]);
        while let [c1, c2, l1, l2, after @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*l1, *l2]));
            let (value, after) = after.split_at(length);
            match u16::from_be_bytes([*c1, *c2]) {
                KEEPALIVE => normal.keepalive = Some(value.to_vec()),
                PADDING => normal.padding = Some(value.to_vec()),
                COOKIE => {
                    assert_eq!(length, 24, "a cookie: {query:?}");
                    kept.extend_from_slice(&[*c1, *c2, *l1, *l2]);
                    kept.extend_from_slice(&value[..8]);
                    kept.extend_from_slice(&[0; 16]);
                }
                _ => kept.extend_from_slice(&rest[..4 + length]),
            }
            rest = after;
        }
        assert!(rest.is_empty(), "truncated option: {reply:?}");
        let length = (kept.len() as u16).to_be_bytes();
        normal.octets = [&reply[..start - 2], &length, &kept, &reply[end..]].concat();
        normal
    }

    /// Returns whether a reply of this size has correct padding or none.
    pub fn is_padded(&self, length: usize) -> bool {
        match &self.padding {
            None => false,
            Some(zeros) => {
                let is_zero = zeros.iter().all(|octet| *octet == 0);
                assert!(is_zero && zeros.len() < BLOCK, "{zeros:?}");
                assert!(length.is_multiple_of(BLOCK), "{length} octets");
                true
            }
        }
    }
}

/// Returns start and end of the options of the OPT record.
fn options_of(reply: &[u8]) -> Option<(usize, usize)> {
    let number = |at: usize| u16::from_be_bytes([reply[at], reply[at + 1]]);
    let mut at = 12;
    for _ in 0..number(4) {
        at = after_name(reply, at) + 4;
    }
    let records = [6, 8, 10].map(|at| usize::from(number(at)));
    let mut found = None;
    for _ in 0..records.iter().sum() {
        let fixed = after_name(reply, at);
        let start = fixed + 10;
        let end = start + usize::from(number(fixed + 8));
        if number(fixed) == OPT {
            assert!(found.is_none(), "two OPT records: {reply:?}");
            found = Some((start, end));
        }
        at = end;
    }
    assert_eq!(at, reply.len(), "octets after the last record: {reply:?}");
    found
}

fn after_name(reply: &[u8], mut at: usize) -> usize {
    loop {
        match reply[at] {
            0 => return at + 1,
            0xc0.. => return at + 2,
            length => at += 1 + usize::from(length),
        }
    }
}

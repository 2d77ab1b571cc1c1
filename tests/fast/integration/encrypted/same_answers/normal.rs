//! Replies without the parts that may differ: options that depend on the transport.

use support::reply::Reply;

const KEEPALIVE: u16 = 11;
const PADDING: u16 = 12;
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
    pub fn of(reply: &[u8]) -> Self {
        let mut normal = Self {
            octets: reply.to_vec(),
            keepalive: None,
            padding: None,
        };
        let read = Reply::read_with_place_of_options(reply);
        let (read, place) = read.unwrap_or_else(|error| panic!("{error}: {reply:?}"));
        let (Some(opt), Some(place)) = (read.opt, place) else {
            return normal;
        };
        let mut kept = Vec::new();
        for (code, value) in opt.options {
            match code {
                KEEPALIVE => normal.keepalive = Some(value),
                PADDING => normal.padding = Some(value),
                code => {
                    kept.extend([code, value.len() as u16].map(u16::to_be_bytes).concat());
                    kept.extend(value);
                }
            }
        }
        let length = (kept.len() as u16).to_be_bytes();
        let (before, after) = (&reply[..place.start - 2], &reply[place.end..]);
        normal.octets = [before, &length, &kept, after].concat();
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

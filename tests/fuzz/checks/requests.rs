//! Checks of the head of any HTTP request: it is accepted with its DNS message, or refused with the correct status
//! code.

use global_dns::server::encrypted::request::{DnsRequest, read};
use global_dns::server::framing::MAX_QUERY;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};

use super::choices::Choices;
use super::memory::holds_at_most;
use super::messages::question_from;

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The HTTP library rejects it.
    Invalid,
    Accepted(DnsRequest),
    Refused(u16),
}

const PATH: &str = "/dns-query";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Maximum memory to read a request in octets: the message, and the rounding of the decoder.
const MAX_MEMORY: u64 = 2 * MAX_QUERY as u64;

/// Builds a request from choices, and reads it.
pub fn check(octets: &[u8]) -> Outcome {
    let Some(request) = request(&mut Choices::new(octets)) else {
        return Outcome::Invalid;
    };
    let read = holds_at_most(MAX_MEMORY, "reading a request", || read(&request, PATH));
    let outcome = match read {
        Ok(accepted) => Outcome::Accepted(accepted),
        Err(problem) => {
            let is_text = |octet: u8| octet == b' ' || octet.is_ascii_graphic();
            let text = problem.to_string();
            assert!(text.bytes().all(is_text), "{text}");
            assert!(text.contains(' '), "the reason is not a sentence");
            Outcome::Refused(problem.status().as_u16())
        }
    };
    assert_eq!(outcome, expected(&request), "{request:?}");
    outcome
}

// === Requests ===

/// Returns the head of an HTTP/2 request, as it comes from the HTTP library.
fn request(choices: &mut Choices<'_>) -> Option<Parts> {
    const METHODS: [&str; 10] = [
        "GET", "GET", "GET", "HEAD", "POST", "POST", "OPTIONS", "PUT", "get", "CONNECT",
    ];
    let method = if choices.rarely(16) {
        let length = choices.below(12);
        Method::from_bytes(choices.take(length)).ok()?
    } else {
        choices.pick(&METHODS).parse().ok()?
    };
    let target = target(choices);
    let uri = Uri::try_from(target.as_slice()).ok()?;
    let mut headers = HeaderMap::new();
    for _ in 0..choices.below(4) {
        headers.append(CONTENT_TYPE, media_type(choices)?);
    }
    let (mut head, ()) = Request::new(()).into_parts();
    head.version = Version::HTTP_2;
    (head.method, head.uri, head.headers) = (method, uri, headers);
    Some(head)
}

fn target(choices: &mut Choices<'_>) -> Vec<u8> {
    const PATHS: [&str; 8] = [
        PATH,
        PATH,
        PATH,
        PATH,
        "https://a.test/dns-query",
        "/",
        "/dns-query/",
        "/DNS-query",
    ];
    let mut target = if choices.rarely(16) {
        raw(choices)
    } else {
        choices.pick(&PATHS).as_bytes().to_vec()
    };
    for part in 0..choices.below(5) {
        target.push(if part == 0 { b'?' } else { b'&' });
        match choices.octet() % 10 {
            0..=3 => {
                target.extend(b"dns=");
                encode(&question_from(choices), &mut target);
            }
            // A length close to the maximum.
            4 => {
                target.extend(b"dns=");
                let mut long = question_from(choices);
                long.resize(MAX_QUERY - 4 + choices.below(8), 0);
                encode(&long, &mut target);
            }
            5 => {
                target.extend(b"dns=");
                let length = choices.below(40);
                encode(choices.take(length), &mut target);
                target.extend(
                    choices
                        .pick(&["", "", "=", "==", "A", "%3D", "+", "/"])
                        .bytes(),
                );
            }
            6 => {
                target.extend(b"dns=");
                target.extend(raw(choices));
            }
            7 => target.extend(
                choices
                    .pick(&["dns", "DNS=AAAA", "dnss=AAAA", "dns==", "xdns=", ""])
                    .bytes(),
            ),
            8 => target.extend(b"ct=application/dns-message"),
            _ => target.extend(raw(choices)),
        }
    }
    target
}

fn raw(choices: &mut Choices<'_>) -> Vec<u8> {
    let length = choices.below(64);
    choices.take(length).to_vec()
}

fn media_type(choices: &mut Choices<'_>) -> Option<HeaderValue> {
    const TYPES: [&str; 9] = [
        "application/dns-message",
        "application/dns-message",
        "Application/DNS-Message",
        "application/dns-message; charset=utf-8",
        " application/dns-message ;",
        "application/dns-message, text/plain",
        "application/dns-messages",
        "text/plain",
        "",
    ];
    if choices.rarely(8) {
        HeaderValue::from_bytes(&raw(choices)).ok()
    } else {
        HeaderValue::from_str(choices.pick(&TYPES)).ok()
    }
}

/// Encodes without padding (RFC 4648 section 5).
fn encode(octets: &[u8], out: &mut Vec<u8>) {
    for three in octets.chunks(3) {
        let octet = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        let digit = |at: usize| DIGITS[(bits >> (18 - 6 * at) & 0x3f) as usize];
        out.extend((0..=three.len()).map(digit));
    }
}

// === Expected results ===

fn expected(request: &Parts) -> Outcome {
    if request.uri.path() != PATH {
        return Outcome::Refused(404);
    }
    let accepted = match request.method.as_str() {
        "GET" | "HEAD" => message(request.uri.query().unwrap_or("")).map(DnsRequest::Message),
        "POST" if has_dns_message_type(&request.headers) => Ok(DnsRequest::Body),
        "POST" => Err(415),
        "OPTIONS" => Ok(DnsRequest::Methods),
        _ => Err(405),
    };
    accepted.map_or_else(Outcome::Refused, Outcome::Accepted)
}

fn message(query: &str) -> Result<Vec<u8>, u16> {
    let all: Vec<&str> = query.split('&').collect();
    let encoded = all.iter().filter(|part| part.starts_with("dns="));
    let encoded: Vec<&str> = encoded.map(|part| &part[4..]).collect();
    let [encoded] = encoded[..] else {
        return Err(400);
    };
    // Complete octets only; a part of an octet does not count.
    if encoded.len() * 6 / 8 > MAX_QUERY {
        return Err(414);
    }
    decode(encoded.as_bytes()).ok_or(400)
}

/// Decodes digit by digit. Fails if the remaining bits are a whole digit or not zero.
fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let (mut octets, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in encoded {
        let value = DIGITS.iter().position(|known| known == digit)?;
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            octets.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (count < 6 && bits == 0).then_some(octets)
}

fn has_dns_message_type(headers: &HeaderMap) -> bool {
    let types: Vec<_> = headers.get_all(CONTENT_TYPE).iter().collect();
    let [one] = types[..] else {
        return false;
    };
    let essence = one.as_bytes().split(|octet| *octet == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    let is_text = |octet: &u8| *octet == b'\t' || (b' '..=b'~').contains(octet);
    one.as_bytes().iter().all(is_text) && essence.eq_ignore_ascii_case(b"application/dns-message")
}

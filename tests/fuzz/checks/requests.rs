//! What holds of the head of any HTTP request: it asks for the message that it holds, or is refused by the right code.

use global_dns::server::encrypted::request::{Asked, read};
use global_dns::server::framing::QUERY;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Uri};

use super::choices::Choices;
use super::memory::holds_at_most;
use super::messages::question_of;

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No HTTP library hands it over.
    NoRequest,
    Asks(Asked),
    Refused(u16),
}

/// A request as the HTTP library hands it over.
struct Request {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

const PATH: &str = "/dns-query";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Octets that reading a request holds at most: the message, and what the decoder rounds it up to.
const MOST: u64 = 2 * QUERY as u64;

/// Makes a request out of choices and reads it.
pub fn check(octets: &[u8]) -> Outcome {
    let Some(request) = request(&mut Choices::new(octets)) else {
        return Outcome::NoRequest;
    };
    let Request {
        method,
        uri,
        headers,
    } = &request;
    let read = holds_at_most(MOST, "reading a request", || {
        read(method, uri, headers, PATH)
    });
    let outcome = match read {
        Ok(asked) => Outcome::Asks(asked),
        Err(problem) => {
            let is_text = |octet: u8| octet == b' ' || octet.is_ascii_graphic();
            assert!(problem.reason.bytes().all(is_text), "{}", problem.reason);
            assert!(problem.reason.contains(' '), "a sentence");
            Outcome::Refused(problem.status.as_u16())
        }
    };
    assert_eq!(outcome, expected(&request), "{method} {uri} {headers:?}");
    outcome
}

// === Requests ===

fn request(choices: &mut Choices<'_>) -> Option<Request> {
    const METHODS: [&str; 10] = [
        "GET", "GET", "GET", "HEAD", "POST", "POST", "OPTIONS", "PUT", "get", "CONNECT",
    ];
    let method = match choices.rarely(16) {
        true => {
            let length = choices.below(12);
            Method::from_bytes(choices.take(length)).ok()?
        }
        false => choices.pick(&METHODS).parse().ok()?,
    };
    let target = target(choices);
    let uri = Uri::try_from(target.as_slice()).ok()?;
    let mut headers = HeaderMap::new();
    for _ in 0..choices.below(4) {
        headers.append(CONTENT_TYPE, media_type(choices)?);
    }
    Some(Request {
        method,
        uri,
        headers,
    })
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
    let mut target = match choices.rarely(16) {
        true => raw(choices),
        false => choices.pick(&PATHS).as_bytes().to_vec(),
    };
    for part in 0..choices.below(5) {
        target.push(if part == 0 { b'?' } else { b'&' });
        match choices.octet() % 10 {
            0..=3 => {
                target.extend(b"dns=");
                encode(&question_of(choices), &mut target);
            }
            // About as long as a query may be.
            4 => {
                target.extend(b"dns=");
                let mut long = question_of(choices);
                long.resize(QUERY - 4 + choices.below(8), 0);
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
    match choices.rarely(8) {
        true => HeaderValue::from_bytes(&raw(choices)).ok(),
        false => HeaderValue::from_str(choices.pick(&TYPES)).ok(),
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

// === What is to become of them ===

fn expected(request: &Request) -> Outcome {
    if request.uri.path() != PATH {
        return Outcome::Refused(404);
    }
    let asks = match request.method.as_str() {
        "GET" | "HEAD" => message(request.uri.query().unwrap_or("")).map(Asked::Message),
        "POST" if has_our_type(&request.headers) => Ok(Asked::Body),
        "POST" => Err(415),
        "OPTIONS" => Ok(Asked::Methods),
        _ => Err(405),
    };
    asks.map_or_else(Outcome::Refused, Outcome::Asks)
}

fn message(query: &str) -> Result<Vec<u8>, u16> {
    let all: Vec<&str> = query.split('&').collect();
    let ours = all.iter().filter(|part| part.starts_with("dns="));
    let ours: Vec<&str> = ours.map(|part| &part[4..]).collect();
    let [encoded] = ours[..] else {
        return Err(400);
    };
    // Whole octets of the longest query, and what is left of a digit.
    if encoded.len() * 6 / 8 > QUERY {
        return Err(414);
    }
    decode(encoded.as_bytes()).ok_or(400)
}

/// Decodes digit by digit: bits that make no octet are none, or zero.
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

fn has_our_type(headers: &HeaderMap) -> bool {
    let types: Vec<_> = headers.get_all(CONTENT_TYPE).iter().collect();
    let [one] = types[..] else {
        return false;
    };
    let essence = one.as_bytes().split(|octet| *octet == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    let is_text = |octet: &u8| *octet == b'\t' || (b' '..=b'~').contains(octet);
    one.as_bytes().iter().all(is_text) && essence.eq_ignore_ascii_case(b"application/dns-message")
}

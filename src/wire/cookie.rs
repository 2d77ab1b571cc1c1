//! DNS cookies (RFC 7873, RFC 9018). They are returned but never required. A valid server cookie proves the client's
//! address, so the client has no rate limit.
//!
//! CoreDNS forwards the OPT records of its clients under its own address, so an invalid cookie proves nothing. An
//! invalid server cookie is treated as a missing one.

use std::fmt;
use std::hash::Hasher as _;
use std::net::IpAddr;
use std::str::FromStr;

use siphasher::sip::SipHasher24;

/// A secret for making server cookies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CookieSecret(pub [u8; 16]);

/// The secrets in use. The first makes cookies. The cookies of all secrets are accepted (RFC 9018 section 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieSecrets {
    first: CookieSecret,
    others: Vec<CookieSecret>,
}

/// The reason why a text has no valid secrets. It never contains the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecrets {
    /// A line is not a secret.
    #[error("line {0}: a secret is {SECRET_DIGITS} hexadecimal digits")]
    Line(usize),
    /// All lines are empty.
    #[error("the file has no secret; a secret is {SECRET_DIGITS} hexadecimal digits on a line")]
    Empty,
}

/// The client part of a cookie.
pub type ClientCookie = [u8; 8];

/// The server part of a cookie, in the format of RFC 9018.
pub type ServerCookie = [u8; 16];

/// A client cookie and its server cookie.
pub type Cookie = [u8; 24];

/// Limits of the age of a cookie in seconds (RFC 9018 section 4.3). The age is negative if a clock was set back.
pub const MAX_AGE: i32 = 3600;
const MIN_AGE: i32 = -300;

/// Version of the server cookies (RFC 9018 section 4.1).
const VERSION: u8 = 1;

/// Number of hexadecimal digits of a secret.
const SECRET_DIGITS: usize = 32;

// === impl CookieSecrets ===

impl CookieSecrets {
    /// Uses `first` for new cookies and also accepts the cookies of `others`.
    pub fn new(first: CookieSecret, others: Vec<CookieSecret>) -> Self {
        Self { first, others }
    }

    /// Returns the secret that makes cookies.
    pub fn first(&self) -> CookieSecret {
        self.first
    }

    /// Returns the number of secrets.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// Makes the cookie for a client. `time` is in Unix seconds.
    pub fn cookie(&self, client: ClientCookie, address: IpAddr, time: u32) -> Cookie {
        self.first.cookie(client, address, time)
    }

    /// Returns whether a server cookie was made for this client with one of the secrets, and has not expired. `time` is
    /// in Unix seconds.
    pub fn is_valid(
        &self,
        client: ClientCookie,
        server: ServerCookie,
        address: IpAddr,
        time: u32,
    ) -> bool {
        let mut secrets = std::iter::once(&self.first).chain(&self.others);
        secrets.any(|secret| secret.is_valid(client, server, address, time))
    }
}

impl FromStr for CookieSecrets {
    type Err = InvalidSecrets;

    /// Parses one secret from each line that is not empty.
    fn from_str(text: &str) -> Result<Self, InvalidSecrets> {
        let lines = text.lines().map(str::trim).enumerate();
        let mut secrets = lines
            .filter(|(_, line)| !line.is_empty())
            .map(|(index, line)| secret(line).ok_or(InvalidSecrets::Line(index + 1)))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter();
        let first = secrets.next().ok_or(InvalidSecrets::Empty)?;
        Ok(Self::new(first, secrets.collect()))
    }
}

fn secret(text: &str) -> Option<CookieSecret> {
    // `from_str_radix` accepts a sign.
    let is_hex = text.len() == SECRET_DIGITS && text.bytes().all(|octet| octet.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
    Some(CookieSecret(number.to_be_bytes()))
}

// === impl CookieSecret ===

impl CookieSecret {
    /// Makes the cookie for a client (RFC 9018 section 4). `time` is in Unix seconds.
    pub fn cookie(&self, client: ClientCookie, address: IpAddr, time: u32) -> Cookie {
        self.sign(client, address, [0; 3], time)
    }

    fn sign(&self, client: ClientCookie, address: IpAddr, reserved: [u8; 3], time: u32) -> Cookie {
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(&client);
        cookie[8] = VERSION;
        cookie[9..12].copy_from_slice(&reserved);
        cookie[12..16].copy_from_slice(&time.to_be_bytes());
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&cookie[..16]);
        match address {
            IpAddr::V4(v4) => hasher.write(&v4.octets()),
            IpAddr::V6(v6) => hasher.write(&v6.octets()),
        }
        cookie[16..].copy_from_slice(&hasher.finish().to_le_bytes());
        cookie
    }

    /// Returns whether a server cookie was made for this client with this secret, and has not expired. The client's
    /// address is then genuine. `time` is in Unix seconds. The reserved octets need not be zero, but the hash covers them
    /// (RFC 9018 section 4.2).
    pub fn is_valid(
        &self,
        client: ClientCookie,
        server: ServerCookie,
        address: IpAddr,
        time: u32,
    ) -> bool {
        let [_, r1, r2, r3, t1, t2, t3, t4, ..] = server;
        let made = u32::from_be_bytes([t1, t2, t3, t4]);
        let age = time.wrapping_sub(made).cast_signed(); // serial numbers (RFC 1982)
        (MIN_AGE..=MAX_AGE).contains(&age)
            && self.sign(client, address, [r1, r2, r3], made)[8..] == server
    }
}

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_is_valid_only_when_fresh_and_for_same_client_address_and_secret() {
        const NOW: u32 = 1_790_000_000;
        let (secret, client) = (CookieSecret([7; 16]), *b"12345678");
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let half = |secret: CookieSecret, client, address, made| -> ServerCookie {
            secret.cookie(client, address, made)[8..]
                .try_into()
                .unwrap()
        };
        let server = half(secret, client, address, NOW);
        for (time, is_valid) in [
            (NOW - 301, false),
            (NOW - 300, true),
            (NOW, true),
            (NOW + 3600, true),
            (NOW + 3601, false),
        ] {
            assert_eq!(
                secret.is_valid(client, server, address, time),
                is_valid,
                "{time}"
            );
        }
        assert!(!secret.is_valid(*b"12345679", server, address, NOW));
        assert!(!secret.is_valid(client, server, "192.0.2.2".parse().unwrap(), NOW));
        assert!(!CookieSecret([8; 16]).is_valid(client, server, address, NOW));
        for octet in 0..16 {
            let mut forged = server;
            forged[octet] ^= 1;
            assert!(!secret.is_valid(client, forged, address, NOW), "{octet}");
        }
        // The 32-bit clock wraps around in 2106.
        let late = half(secret, client, address, u32::MAX - 1);
        assert!(secret.is_valid(client, late, address, 5));
    }

    #[test]
    fn the_first_secret_makes_cookies_and_all_are_accepted() {
        const NOW: u32 = 1_790_000_000;
        let [one, two, three] = [1, 2, 3].map(|octet| CookieSecret([octet; 16]));
        let secrets = CookieSecrets::new(one, vec![two]);
        assert_eq!(secrets.count(), 2);
        let client = *b"12345678";
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(
            secrets.cookie(client, address, NOW),
            one.cookie(client, address, NOW)
        );
        for (secret, is_valid) in [(one, true), (two, true), (three, false)] {
            let cookie = secret.cookie(client, address, NOW);
            let server: ServerCookie = cookie[8..].try_into().unwrap();
            assert_eq!(secrets.is_valid(client, server, address, NOW), is_valid);
            // More secrets do not extend the maximum age.
            let later = NOW + MAX_AGE.cast_unsigned() + 1;
            assert!(!secrets.is_valid(client, server, address, later));
        }
    }

    #[test]
    fn secrets_are_32_hexadecimal_digits_a_line() {
        const ONE: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
        const TWO: &str = "DD3BDF9344B678B185A6F5CB60FCA715";
        let read = |text: &str| text.parse::<CookieSecrets>();
        let secret = |number: u128| CookieSecret(number.to_be_bytes());
        let one = secret(0xe5e9_73e5_a6b2_a43f_48e7_dc84_9e37_bfcf);
        let two = secret(0xdd3b_df93_44b6_78b1_85a6_f5cb_60fc_a715);
        for (text, others) in [
            (ONE.to_owned(), vec![]),
            (format!("{ONE}\n"), vec![]),
            (format!("{ONE}\n{TWO}\n"), vec![two]),
            (format!("\r\n  {ONE}\r\n\r\n{TWO}\r\n\n"), vec![two]),
        ] {
            assert_eq!(read(&text), Ok(CookieSecrets::new(one, others)), "{text:?}");
        }
        for (text, error) in [
            (String::new(), InvalidSecrets::Empty),
            ("\n \n".to_owned(), InvalidSecrets::Empty),
            (ONE[1..].to_owned(), InvalidSecrets::Line(1)),
            (format!("{ONE}0"), InvalidSecrets::Line(1)),
            (format!("+{}", &ONE[1..]), InvalidSecrets::Line(1)),
            (format!("0x{}", &ONE[2..]), InvalidSecrets::Line(1)),
            (format!("{ONE}\n\n{ONE} {TWO}"), InvalidSecrets::Line(3)),
            (format!("{ONE}\n# {TWO}"), InvalidSecrets::Line(2)),
        ] {
            assert_eq!(read(&text), Err(error), "{text:?}");
            // The error is logged.
            assert!(!error.to_string().contains(&ONE[1..9]));
        }
        assert!(!format!("{:?}", read(ONE)).contains("e5"));
    }

    /// RFC 9018 section 4.2. Appendix A.3 has a cookie with reserved octets, which its server accepts.
    #[test]
    fn reserved_octets_of_a_cookie_may_have_any_value() {
        let secret = CookieSecret(0xe5e9_73e5_a6b2_a43f_48e7_dc84_9e37_bfcf_u128.to_be_bytes());
        let client = 0xfc93_fc62_807d_db86_u64.to_be_bytes();
        let server = 0x01ab_cdef_5cf7_8f71_a314_227b_6679_ebf5_u128.to_be_bytes();
        let address = "203.0.113.203".parse().unwrap();
        assert!(secret.is_valid(client, server, address, 0x5cf7_8f71));
        let mut other_version = server;
        other_version[0] = 2;
        assert!(!secret.is_valid(client, other_version, address, 0x5cf7_8f71));
        let mut forged = server;
        forged[1..4].fill(0);
        assert!(!secret.is_valid(client, forged, address, 0x5cf7_8f71));
    }

    /// RFC 9018 appendix A.1 and A.4.
    #[test]
    fn cookies_match_examples_of_rfc_9018() {
        let secret = CookieSecret(0xe5e9_73e5_a6b2_a43f_48e7_dc84_9e37_bfcf_u128.to_be_bytes());
        let client = 0x2464_c4ab_cf10_c957_u64.to_be_bytes();
        let cookie = secret.cookie(client, "198.51.100.100".parse().unwrap(), 0x5cf7_9f11);
        let server = 0x0100_0000_5cf7_9f11_1f81_30c3_eee2_9480_u128.to_be_bytes();
        assert_eq!(cookie[8..], server);

        let client = 0x2268_1ab9_7d52_c298_u64.to_be_bytes();
        let address = "2001:db8:220:1:59de:d0f4:8769:82b8".parse().unwrap();
        for (secret, time, server) in [
            (
                0xdd3b_df93_44b6_78b1_85a6_f5cb_60fc_a715_u128,
                0x5cf7_c579,
                0x2655_6bd0_934c_72f8_u64,
            ),
            (
                0x4455_36bc_d251_3298_075a_5d37_9663_c962,
                0x5cf7_c609,
                0xa6bb_79d1_6625_507a,
            ),
        ] {
            let cookie = CookieSecret(secret.to_be_bytes()).cookie(client, address, time);
            assert_eq!(cookie[16..], server.to_be_bytes());
        }
    }
}

//! DNS cookies (RFC 7873, RFC 9018): answered, and never enforced. Who returns one proves its address, and is not limited.
//!
//! CoreDNS forwards its clients' OPT records under its own address, so a cookie that does not fit says nothing about the
//! client. A bad server cookie counts as none.

use std::hash::Hasher as _;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

/// What server cookies are made with; one for each process.
#[derive(Clone, Copy)]
pub struct CookieSecret(pub [u8; 16]);

/// The client's half of a cookie.
pub type ClientCookie = [u8; 8];

/// The server's half, as RFC 9018 has it.
pub type ServerCookie = [u8; 16];

/// A client cookie and the server cookie that belongs to it.
pub type Cookie = [u8; 24];

/// How old a cookie of ours may be, and how far ahead a clock that has been set back may leave it, in seconds (RFC 9018
/// section 4.3).
const OLDEST: i32 = 3600;
const NEWEST: i32 = -300;

impl CookieSecret {
    /// Makes the cookie for a client (RFC 9018 section 4). `time` is in Unix seconds.
    pub fn cookie(&self, client: ClientCookie, address: IpAddr, time: u32) -> Cookie {
        const VERSION: [u8; 4] = [1, 0, 0, 0]; // and three reserved octets
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(&client);
        cookie[8..12].copy_from_slice(&VERSION);
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

    /// Returns whether a client has this from us, not long ago, and so is where it says. `time` is in Unix seconds.
    pub fn is_ours(
        &self,
        client: ClientCookie,
        server: ServerCookie,
        address: IpAddr,
        time: u32,
    ) -> bool {
        let [_, _, _, _, t1, t2, t3, t4, ..] = server;
        let made = u32::from_be_bytes([t1, t2, t3, t4]);
        let age = time.wrapping_sub(made).cast_signed(); // serial numbers (RFC 1982)
        (NEWEST..=OLDEST).contains(&age) && self.cookie(client, address, made)[8..] == server
    }
}

impl std::fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fresh_cookie_of_ours_for_the_same_client_and_address_counts() {
        const NOW: u32 = 1_790_000_000;
        let (secret, client) = (CookieSecret([7; 16]), *b"12345678");
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let half = |secret: CookieSecret, client, address, made| -> ServerCookie {
            secret.cookie(client, address, made)[8..]
                .try_into()
                .unwrap()
        };
        let ours = half(secret, client, address, NOW);
        for (time, is_ours) in [
            (NOW - 301, false),
            (NOW - 300, true),
            (NOW, true),
            (NOW + 3600, true),
            (NOW + 3601, false),
        ] {
            assert_eq!(
                secret.is_ours(client, ours, address, time),
                is_ours,
                "{time}"
            );
        }
        assert!(!secret.is_ours(*b"12345679", ours, address, NOW));
        assert!(!secret.is_ours(client, ours, "192.0.2.2".parse().unwrap(), NOW));
        assert!(!CookieSecret([8; 16]).is_ours(client, ours, address, NOW));
        for octet in 0..16 {
            let mut forged = ours;
            forged[octet] ^= 1;
            assert!(!secret.is_ours(client, forged, address, NOW), "{octet}");
        }
        // The clock of 2106.
        let late = half(secret, client, address, u32::MAX - 1);
        assert!(secret.is_ours(client, late, address, 5));
    }

    /// RFC 9018 appendix A.1 and A.4.
    #[test]
    fn the_examples_of_rfc_9018() {
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

//! A host that requests to the API may name.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::setting_text::setting_text;

/// The host of a URL: an address in its usual form, or a name in lower case without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiHost(String);

// === impl ApiHost ===

impl ApiHost {
    /// Returns an address in its usual form.
    pub fn of(address: IpAddr) -> Self {
        Self(address.to_canonical().to_string())
    }

    /// Returns the text of the host.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApiHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::of(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_valid = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_valid);
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err("a host must be a name or an IP address, without a port");
        }
        Ok(Self(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for ApiHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

setting_text!(ApiHost: r"^[A-Za-z0-9._:-]+$");

#[cfg(test)]
mod tests {
    #[test]
    fn api_host_is_a_name_or_an_address() {
        let mut good = "dns.example.com dns 192.0.2.1 2001:db8::1 my_host.".split(' ');
        assert!(good.all(|one| one.parse::<super::ApiHost>().is_ok()));
        let mut bad = " dns:80 http://dns [::1] * *.example.com a..b dns/".split(' ');
        assert!(bad.all(|one| one.parse::<super::ApiHost>().is_err()));
    }
}

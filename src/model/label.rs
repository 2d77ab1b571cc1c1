//! Types of names that become DNS labels. A name is checked once, when it is made.
//!
//! Five newtypes share one grammar, so that the compiler rejects a namespace where a cluster is expected.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use super::interned::{Text, intern};
use crate::setting_text::setting_text;

/// Returns whether a text is an RFC 1123 label as in Kubernetes: lower case, without a leading or trailing hyphen.
pub(super) fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        && bytes.first() != Some(&b'-')
        && bytes.last() != Some(&b'-')
}

/// Returns a label as a shared text.
///
/// # Errors
///
/// With a sentence, if the text is not a label.
fn label_text(text: &str) -> Result<Text, String> {
    if is_label(text) {
        return Ok(intern(text));
    }
    Err(format!(
        "not a DNS label: '{text}'; a label has 1 to 63 lower-case letters, digits and inner hyphens"
    ))
}

macro_rules! label {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        /// The default is empty: the name of nothing.
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Text);

        impl $name {
            /// Returns the label as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the label as a shared text.
            pub fn text(&self) -> &Text {
                &self.0
            }

            /// Makes a label with a shared text.
            ///
            /// # Errors
            ///
            /// With a sentence, if the text is not a label.
            pub fn interned(text: &str) -> Result<Self, String> {
                label_text(text).map(Self)
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::interned(text)
            }
        }

        setting_text!($name: r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$");

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

label! {
    /// A Kubernetes namespace, label `N` of an owner name.
    Namespace
}
label! {
    /// The name of an exported Service, label `S` of an owner name.
    ServiceName
}
label! {
    /// The name of a cluster, label `C` of an owner name. It comes from a label, never from the name of a Service.
    ClusterName
}
label! {
    /// The hostname of an endpoint, label `H` of an owner name.
    Hostname
}
label! {
    /// The name of a port. With a leading underscore, it is label `_P` of an owner name (RFC 2782).
    PortName
}

impl Namespace {
    /// Makes the name of a namespace of a text that is a label.
    pub(super) fn of_checked(label: Text) -> Self {
        Self(label)
    }

    /// Returns the name of a service with the same name.
    pub fn as_service(&self) -> ServiceName {
        ServiceName(self.0.clone())
    }
}

impl Hostname {
    /// Returns the name of a service with the same name.
    pub fn as_service(&self) -> ServiceName {
        ServiceName(self.0.clone())
    }

    /// Makes the name of an endpoint without a hostname: its address with dashes, as in CoreDNS (`10-1-2-3`).
    ///
    /// If an IPv6 address leads to a dash at either end, a `0` is added there.
    pub fn from_address(address: std::net::IpAddr) -> Self {
        let dashed = address.to_string().replace(['.', ':'], "-");
        let head = if dashed.starts_with('-') { "0" } else { "" };
        let tail = if dashed.ends_with('-') { "0" } else { "" };
        Self(intern(&format!("{head}{dashed}{tail}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_has_lower_case_letters_digits_and_inner_hyphens() {
        for good in ["a", "db-0", "0", "a--b", &"x".repeat(63)] {
            assert_eq!(
                good.parse::<ServiceName>().map(|n| n.to_string()),
                Ok(good.to_owned())
            );
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a.b",
            "a_b",
            "ü",
            "a b",
            &"x".repeat(64),
        ] {
            assert_eq!(
                bad.parse::<ServiceName>(),
                Err(format!(
                    "not a DNS label: '{bad}'; a label has 1 to 63 lower-case letters, digits and inner hyphens"
                ))
            );
        }
    }

    #[test]
    fn endpoint_without_hostname_is_named_by_its_address() {
        for (address, name) in [
            ("10.1.2.3", "10-1-2-3"),
            ("2001:db8::1", "2001-db8--1"),
            ("2001:db8::", "2001-db8--0"),
            ("::1", "0--1"),
        ] {
            assert_eq!(
                Hostname::from_address(address.parse().unwrap()).as_str(),
                name
            );
        }
    }
}

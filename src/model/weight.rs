//! The weight of a cluster within a step of a failover order (rule K5w).

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use super::fields::shorten;

/// The weight of a cluster: from 0 to 1000. Zero drains the cluster.
///
/// It is stored as its successor, so that an optional weight needs two octets: each endpoint has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(NonZeroU16);

/// A text that is not a weight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a weight from 0 to {}", shorten(.0), Weight::MAX)]
pub struct InvalidWeight(String);

impl Weight {
    /// The greatest weight.
    pub const MAX: u16 = 1000;

    /// Returns the number.
    pub fn get(self) -> u16 {
        self.0.get() - 1
    }

    /// Returns whether the cluster is drained: it answers only if nothing else does.
    pub fn is_drained(self) -> bool {
        self.get() == 0
    }
}

impl FromStr for Weight {
    type Err = InvalidWeight;

    fn from_str(text: &str) -> Result<Self, InvalidWeight> {
        // A number without a sign.
        let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
        let number = text.parse::<u16>().ok();
        let number = number.filter(|number| is_number && *number <= Self::MAX);
        let successor = number.and_then(|number| NonZeroU16::new(number + 1));
        let weight = successor.map(Self);
        weight.ok_or_else(|| InvalidWeight(text.to_owned()))
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_is_a_number_from_0_to_1000() {
        for (text, number) in [("0", 0), ("7", 7), ("090", 90), ("1000", 1000)] {
            assert_eq!(text.parse::<Weight>().unwrap().get(), number);
        }
        assert_eq!("90".parse::<Weight>().unwrap().to_string(), "90");
        for text in [
            "",
            "-1",
            "+1",
            "1.5",
            "90%",
            "1001",
            "65535",
            "4294967295",
            "x",
        ] {
            let error = text.parse::<Weight>().unwrap_err().to_string();
            assert_eq!(error, format!("'{text}' is not a weight from 0 to 1000"));
        }
    }

    #[test]
    fn only_zero_drains() {
        let is_drained = |text: &str| text.parse::<Weight>().unwrap().is_drained();
        assert_eq!(["0", "1", "1000"].map(is_drained), [true, false, false]);
    }

    #[test]
    fn optional_weight_needs_two_octets() {
        assert_eq!(size_of::<Option<Weight>>(), 2);
    }
}

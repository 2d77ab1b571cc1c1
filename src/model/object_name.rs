//! Names of Kubernetes objects, in a form that needs little memory for a hundred thousand objects.

use std::fmt;

use super::{Text, intern};

/// `metadata.name` of an object.
///
/// Kubernetes names an EndpointSlice after its Service, with a hyphen and five generated characters
/// (`metadata.generateName`). Such a name has two parts here. A slice shares the text of the name of its Service, and
/// in an ordered map the slices of one Service are adjacent. The split depends only on the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    stem: Text,
    /// The generated characters. Zeros if there are none.
    generated: [u8; GENERATED],
}

/// Number of characters that the API server appends to `metadata.generateName`.
const GENERATED: usize = 5;

/// The alphabet of generated characters (`k8s.io/apimachinery/pkg/util/rand`).
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

// === impl ObjectName ===

impl ObjectName {
    /// Makes the name of an object.
    pub fn new(name: &str) -> Self {
        let (stem, generated) = split(name);
        Self {
            stem: intern(stem),
            generated,
        }
    }

    /// Makes a name from a shared text. The text stays shared if it is not split.
    pub fn from_text(name: &Text) -> Self {
        let (stem, generated) = split(name);
        let is_whole = stem.len() == name.len();
        Self {
            stem: if is_whole { name.clone() } else { stem.into() },
            generated,
        }
    }

    /// Returns the whole name.
    pub fn text(&self) -> Text {
        match self.generated {
            [0, ..] => self.stem.clone(),
            _ => self.to_string().into(),
        }
    }

    /// Returns the part before the generated characters. If there are none, returns the whole name.
    pub fn stem(&self) -> &Text {
        &self.stem
    }

    /// Returns the first name with this stem in the order of names.
    pub fn first_of(stem: Text) -> Self {
        Self {
            stem,
            generated: [0; GENERATED],
        }
    }
}

/// Splits a name into its stem and the generated characters.
fn split(name: &str) -> (&str, [u8; GENERATED]) {
    let whole = (name, [0; GENERATED]);
    let Some((stem, generated)) = name.rsplit_once('-') else {
        return whole;
    };
    match <[u8; GENERATED]>::try_from(generated.as_bytes()) {
        Ok(generated) if generated.iter().all(|c| ALPHABET.contains(c)) => (stem, generated),
        _ => whole,
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stem)?;
        match (self.generated, str::from_utf8(&self.generated)) {
            ([0, ..], _) | (_, Err(_)) => Ok(()),
            (_, Ok(generated)) => write!(f, "-{generated}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_unchanged_by_the_split() {
        for (name, stem) in [
            ("db-0-east", "db-0-east"),
            ("db-0-east-7xk2p", "db-0-east"),
            // Kubernetes generates no vowels, and always five characters.
            ("db-0-north", "db-0-north"),
            ("db-0-east-7xk2", "db-0-east-7xk2"),
            ("db-0-east-7xk2pq", "db-0-east-7xk2pq"),
            ("db-7xk2p-7xk2p", "db-7xk2p"),
            ("7xk2p", "7xk2p"),
            ("-7xk2p", ""),
            ("", ""),
            ("datenbank-ü7xk", "datenbank-ü7xk"),
        ] {
            let made = ObjectName::new(name);
            assert_eq!(made.to_string(), name);
            assert_eq!(&*made.text(), name);
            assert_eq!(&**made.stem(), stem, "{name}");
            assert_eq!(made, ObjectName::from_text(&name.into()));
        }
        assert_ne!(
            ObjectName::new("db-0-east"),
            ObjectName::new("db-0-east-7xk2p")
        );
        assert_ne!(
            ObjectName::new("db-0-east-7xk2p"),
            ObjectName::new("db-0-east-7xk2q")
        );
    }
}

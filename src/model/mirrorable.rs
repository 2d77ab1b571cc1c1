//! Whether another cluster can mirror an exported Service of this one. Linkerd says nothing about what it does not mirror.

/// Maximum number of octets in the name of a Service (RFC 1035 label).
const MAX_NAME: usize = 63;

/// An exported Service.
#[derive(Clone, Debug)]
pub struct Exported<'e> {
    /// Its name.
    pub service: &'e str,
    /// The name of its cluster.
    pub cluster: &'e str,
    /// The hostnames of its pods. One that has a cluster IP, or a pod without a hostname, has an empty one.
    pub hosts: Vec<&'e str>,
    /// Whether it is headless, so that each pod needs a mirror of its own.
    pub is_headless: bool,
    /// Whether it has ports.
    pub has_ports: bool,
}

/// The reason why Linkerd mirrors a Service not at all, or without its pods.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMirrorable {
    /// It has no ports.
    #[error("it has no ports, so that Linkerd skips it")]
    NoPorts,
    /// It is headless, and no pod has a hostname.
    #[error("no pod has a hostname, so that Linkerd makes no mirrors of them")]
    NoHostnames,
    /// The name of a mirror would be too long.
    #[error("its mirror {0} would have {length} characters, and Kubernetes accepts {MAX_NAME}", length = .0.len())]
    LongName(String),
}

/// Returns whether other clusters can mirror a Service with its pods.
///
/// # Errors
///
/// The reason why they cannot.
pub fn mirrorable(exported: &Exported<'_>) -> Result<(), NotMirrorable> {
    let Exported {
        service,
        cluster,
        hosts,
        ..
    } = exported;
    let mut named = hosts.iter().filter(|host| !host.is_empty()).peekable();
    if !exported.has_ports {
        return Err(NotMirrorable::NoPorts);
    }
    if exported.is_headless && !hosts.is_empty() && named.peek().is_none() {
        return Err(NotMirrorable::NoHostnames);
    }
    let mut mirrors = named
        .chain([service])
        .map(|name| format!("{name}-{cluster}"));
    match mirrors.find(|mirror| mirror.len() > MAX_NAME) {
        Some(mirror) => Err(NotMirrorable::LongName(mirror)),
        None => Ok(()),
    }
}

// === impl NotMirrorable ===

impl NotMirrorable {
    /// Returns what a person does.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoPorts => "add ports to the Service",
            Self::NoHostnames => "give its pods hostnames, as a StatefulSet does",
            Self::LongName(_) => {
                "shorten the name of the Service, of its pods, or of the cluster: a mirror is called NAME-CLUSTER"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_mirrored_if_it_has_ports_hostnames_and_short_names() {
        let long = "d".repeat(59);
        let db = Exported {
            service: "db",
            cluster: "east",
            hosts: vec!["db-0"],
            is_headless: true,
            has_ports: true,
        };
        let web = Exported {
            hosts: vec![""],
            is_headless: false,
            ..db.clone()
        };
        for (service, expected) in [
            (db.clone(), Ok(())),
            (web.clone(), Ok(())),
            (
                Exported {
                    hosts: Vec::new(),
                    ..db.clone()
                },
                Ok(()),
            ),
            (
                Exported {
                    has_ports: false,
                    ..web
                },
                Err(NotMirrorable::NoPorts),
            ),
            (
                Exported {
                    hosts: vec![""],
                    ..db.clone()
                },
                Err(NotMirrorable::NoHostnames),
            ),
            (
                Exported {
                    hosts: vec!["db-0", &long],
                    ..db
                },
                Err(NotMirrorable::LongName(format!("{long}-east"))),
            ),
        ] {
            assert_eq!(mirrorable(&service), expected, "{service:?}");
        }
    }
}

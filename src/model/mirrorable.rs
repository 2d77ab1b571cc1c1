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
#[error("{reason}; {hint}")]
pub struct NotMirrorable {
    /// What is wrong.
    pub reason: String,
    /// What a person does.
    pub hint: &'static str,
}

/// Returns whether other clusters can mirror a Service with its pods.
///
/// # Errors
///
/// The reason why they cannot.
pub fn mirrorable(exported: &Exported<'_>) -> Result<(), NotMirrorable> {
    let (cluster, hosts) = (exported.cluster, &exported.hosts);
    let mut named = hosts.iter().filter(|host| !host.is_empty()).peekable();
    let has_no_name = named.peek().is_none();
    let mirrors = named.chain([&exported.service]);
    let mut mirrors = mirrors.map(|name| format!("{name}-{cluster}"));
    let (reason, hint) = if !exported.has_ports {
        let reason = "it has no ports, so that Linkerd skips it".to_owned();
        (reason, "add ports to the Service")
    } else if exported.is_headless && !hosts.is_empty() && has_no_name {
        let reason = "no pod has a hostname, so that Linkerd makes no mirrors of them".to_owned();
        (reason, "give its pods hostnames, as a StatefulSet does")
    } else if let Some(mirror) = mirrors.find(|mirror| mirror.len() > MAX_NAME) {
        let length = mirror.len();
        let reason = format!(
            "its mirror {mirror} would have {length} characters, and Kubernetes accepts {MAX_NAME}"
        );
        (
            reason,
            "shorten the name of the Service, of its pods, or of the cluster: a mirror is called NAME-CLUSTER",
        )
    } else {
        return Ok(());
    };
    Err(NotMirrorable { reason, hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_mirrored_if_it_has_ports_hostnames_and_short_names() {
        let long = "d".repeat(59);
        for (hosts, is_headless, has_ports, expected) in [
            (vec!["db-0"], true, true, None),
            (vec![""], false, true, None),
            (Vec::new(), true, true, None),
            (vec![""], false, false, Some("it has no ports")),
            (vec![""], true, true, Some("no pod has a hostname")),
            (vec!["db-0", &long], true, true, Some("its mirror dd")),
        ] {
            let service = Exported {
                service: "db",
                cluster: "east",
                hosts,
                is_headless,
                has_ports,
            };
            let found = mirrorable(&service).err().map(|one| one.reason);
            let is_expected = match (&found, expected) {
                (Some(found), Some(expected)) => found.starts_with(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_expected, "{service:?}: {found:?}");
        }
    }
}

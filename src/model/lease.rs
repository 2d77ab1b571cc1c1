//! Leases of Linkerd's mirror controllers (rule L1).

use super::{KubeObject, ObjectKey};

/// The Lease of the mirror controller of a link: `service-mirror-write-LINK`. Only the controller that holds it writes
/// mirrors, and renews it every two seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Whether a controller holds it: `spec.holderIdentity` is not empty. A controller that stops releases it.
    pub is_held: bool,
    /// `spec.renewTime`, which is compared with nothing but itself: the clocks of the controller and of this process may
    /// differ.
    pub renewal: String,
}

/// The name of a Lease of a mirror controller, without the name of the link.
const PREFIX: &str = "service-mirror-write-";

// === impl Lease ===

impl Lease {
    /// Reads a Lease, with the key of its Link. Returns `None` for Leases of other programs, and for that of this cluster's own
    /// part of federated services, `local-service-mirror-write`.
    pub fn read(object: &KubeObject<'_>) -> Option<(ObjectKey, Self)> {
        let link = object.name().strip_prefix(PREFIX)?;
        let spec = object.spec().ok()?;
        let lease = Self {
            is_held: !spec.holder_identity.is_empty(),
            renewal: spec.renew_time.to_owned(),
        };
        Some((ObjectKey::new(object.namespace(), link), lease))
    }

    /// Returns the name of the Lease of a Link, with its namespace.
    pub fn name_of(link: &ObjectKey) -> String {
        format!("{}/{PREFIX}{}", link.namespace, link.name.text())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_leases_of_mirror_controllers_are_read() {
        let read = |name: &str, spec: serde_json::Value| {
            let metadata = json!({"namespace": "linkerd-multicluster", "name": name});
            let json = json!({"metadata": metadata, "spec": spec}).to_string();
            Lease::read(&KubeObject::read(&json))
        };
        let held = json!({"holderIdentity": "controller-east-7", "renewTime": "2026-11-24T06:30:00.000001Z"});
        let (link, lease) = read("service-mirror-write-east", held.clone()).unwrap();
        assert_eq!(link, ObjectKey::new("linkerd-multicluster", "east"));
        assert_eq!(
            Lease::name_of(&link),
            "linkerd-multicluster/service-mirror-write-east"
        );
        assert!(lease.is_held);
        assert_eq!(lease.renewal, "2026-11-24T06:30:00.000001Z");
        let released = json!({"holderIdentity": "", "renewTime": "2026-11-24T06:30:00.000001Z"});
        assert!(
            !read("service-mirror-write-east", released)
                .unwrap()
                .1
                .is_held
        );
        assert!(
            !read("service-mirror-write-east", json!({}))
                .unwrap()
                .1
                .is_held
        );
        assert_eq!(read("local-service-mirror-write", held.clone()), None);
        assert_eq!(read("kube-scheduler", held), None);
    }
}

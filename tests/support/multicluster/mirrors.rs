//! The objects in a cluster: its own Services as in Kubernetes, and the mirrors of other clusters as Linkerd writes
//! them.

use serde_json::{Value, json};

use super::plan::{CLUSTERS, Member, NAMESPACE, Service};
use crate::objects::{Gateway, Local, Manifest, Mirror, local, mirror, pod_status};

/// The state from the view of one cluster: the members, the links, and the gateways that are down.
pub(super) struct View<'v> {
    /// The index of the viewing cluster.
    pub(super) viewer: usize,
    /// The Services of the members.
    pub(super) services: &'v [&'static Service],
    pub(super) members: &'v [Member],
    /// For each cluster, whether it is linked to the viewing cluster.
    pub(super) is_linked: [bool; CLUSTERS.len()],
    pub(super) is_down: [bool; CLUSTERS.len()],
    pub(super) expected: Option<&'v Expected>,
    /// The failover order of a Service.
    pub(super) failover: Option<&'v (&'static Service, String)>,
}

/// The expected clusters of a Service.
pub(super) struct Expected {
    pub(super) service: &'static Service,
    pub(super) clusters: &'static str,
    /// Until when the name waits for them (RFC 3339). The Services in a file have no time of their creation.
    pub(super) until: String,
}

// === impl View ===

impl View<'_> {
    /// Returns the objects as a manifest file, for a cluster without API server.
    pub(super) fn manifest(&self) -> String {
        let own = self.own_services().map(|service| {
            let mut own = Manifest::from(self.local(service));
            own.0[0] = self.own_service(service);
            own
        });
        let mirrors = self.mirrors().map(Manifest::from);
        own.chain(mirrors).collect::<Manifest>().list()
    }

    /// Returns the objects for an API server. Its controllers write the slices of pods and of the mirrors' Endpoints.
    pub(super) fn objects(&self) -> Vec<Value> {
        let own = self.own_services().map(|service| {
            let mut own = self.own_service(service);
            own["spec"]["selector"] = json!({"app": service.name});
            own
        });
        let mirrors = self.mirrors().flat_map(|mirror| mirror.writes());
        own.chain(mirrors).collect()
    }

    /// Returns the pods of the viewing cluster, each with the status that a kubelet would report.
    pub(super) fn pods(&self, is_ready: bool) -> Vec<(Value, Value)> {
        let own = self.members.iter();
        let own = own.filter(|member| member.cluster == self.viewer);
        let pod = |member: &Member| {
            let pod = local(NAMESPACE, member.service.name).pod_object(&member.host());
            (pod, pod_status(&member.pod_address(), is_ready))
        };
        own.map(pod).collect()
    }

    /// Returns the Services that exist in the viewing cluster: those with a pod or a failover order.
    fn own_services(&self) -> impl Iterator<Item = &'static Service> {
        let services = self.services.iter().copied();
        services.filter(|service| {
            let mut members = self.members.iter();
            members.any(|member| member.is_of(service, self.viewer))
                || self.failover.is_some_and(|(of, _)| of == service)
        })
    }

    fn own_service(&self, service: &Service) -> Value {
        let mut object = self.local(service).service();
        object["spec"]["publishNotReadyAddresses"] = json!(true);
        object
    }

    /// Returns a Service of the viewing cluster. Every endpoint is ready, because the Service publishes not-ready
    /// addresses.
    fn local(&self, service: &Service) -> Local {
        let own = self.members.iter();
        let own = own.filter(|member| member.is_of(service, self.viewer));
        let local = local(NAMESPACE, service.name).exported();
        let local = match self.failover {
            Some((of, order)) if *of == service => local.annotation("global-dns/failover", order),
            _ => local,
        };
        let local = match self.expected {
            Some(Expected {
                service: of,
                clusters,
                until,
            }) if *of == service => {
                let expected = format!("{clusters} until {until}");
                local.annotation("global-dns/expected-clusters", &expected)
            }
            _ => local,
        };
        own.fold(local.ports(&service.ports()), |local, member| {
            local.endpoint(Some(&member.host()), &member.pod_address(), true)
        })
    }

    fn mirrors(&self) -> impl Iterator<Item = Mirror> {
        let others = (0..CLUSTERS.len()).filter(|&cluster| self.is_linked[cluster]);
        self.services.iter().flat_map(move |service| {
            let others = others.clone();
            others.map(move |cluster| self.mirror(service, cluster))
        })
    }

    /// Returns the headless mirror of a Service, with one endpoint mirror for each member.
    pub(super) fn mirror(&self, service: &Service, cluster: usize) -> Mirror {
        let site = &CLUSTERS[cluster];
        let gateway = if self.is_down[cluster] {
            Gateway::Down
        } else {
            Gateway::Up
        };
        let mirror = mirror(NAMESPACE, service.name, site.name).gateway(site.gateway);
        let members = self.members.iter();
        let members = members.filter(|member| member.is_of(service, cluster));
        members.fold(mirror.ports(&service.ports()), |mirror, member| {
            let address = member.synthetic_address(self.viewer);
            mirror.endpoint_behind(gateway, &member.host(), &[&address])
        })
    }
}

//! The objects in a cluster: its own Services as in Kubernetes, and the mirrors of other clusters as Linkerd writes
//! them.

use serde_json::{Value, json};
use support::objects::{Gateway, Local, Manifest, Mirror, local, mirror, pod_status};

use crate::plan::{CLUSTERS, Member, NAMESPACE, SERVICES, Service};

/// The state from the view of one cluster: the members, and the gateways that are down.
pub struct View<'v> {
    /// The index of the viewing cluster.
    pub viewer: usize,
    pub members: &'v [Member],
    pub is_down: [bool; CLUSTERS.len()],
}

// === impl View ===

impl View<'_> {
    /// Returns the objects as a manifest file, for a cluster without API server.
    pub fn manifest(&self) -> String {
        let own = SERVICES.iter().map(|service| {
            let mut own = Manifest::from(self.local(service));
            own.0[0] = self.own_service(service);
            own
        });
        let mirrors = self.mirrors().map(Manifest::from);
        own.chain(mirrors).collect::<Manifest>().list()
    }

    /// Returns the objects for an API server. Its controllers write the slices of pods and of the mirrors' Endpoints.
    pub fn objects(&self) -> Vec<Value> {
        let own = SERVICES.iter().map(|service| {
            let mut own = self.own_service(service);
            own["spec"]["selector"] = json!({"app": service.name});
            own
        });
        let mirrors = self.mirrors().flat_map(|mirror| mirror.writes());
        own.chain(mirrors).collect()
    }

    /// Returns the pods of the viewing cluster, each with the status that a kubelet would report.
    pub fn pods(&self, is_ready: bool) -> Vec<(Value, Value)> {
        let own = self.members.iter();
        let own = own.filter(|member| member.cluster == self.viewer);
        let pod = |member: &Member| {
            let pod = local(NAMESPACE, member.service.name).pod_object(&member.host());
            (pod, pod_status(&member.pod_address(), is_ready))
        };
        own.map(pod).collect()
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
        own.fold(local.ports(&service.ports()), |local, member| {
            local.endpoint(Some(&member.host()), &member.pod_address(), true)
        })
    }

    fn mirrors(&self) -> impl Iterator<Item = Mirror> {
        let others = (0..CLUSTERS.len()).filter(|&cluster| cluster != self.viewer);
        SERVICES.iter().flat_map(move |service| {
            others.clone().map(move |cluster| {
                let site = &CLUSTERS[cluster];
                let gateway = match self.is_down[cluster] {
                    true => Gateway::Down,
                    false => Gateway::Up,
                };
                let mirror = mirror(NAMESPACE, service.name, site.name).gateway(site.gateway);
                let members = self.members.iter();
                let members = members.filter(|member| member.is_of(service, cluster));
                members.fold(mirror.ports(&service.ports()), |mirror, member| {
                    let address = member.synthetic_address(self.viewer);
                    mirror.endpoint_behind(gateway, &member.host(), &[&address])
                })
            })
        })
    }
}

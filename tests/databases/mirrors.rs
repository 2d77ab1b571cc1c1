//! What a cluster sees of itself and of the others: its own Services as Kubernetes makes them, the others' as Linkerd
//! mirrors them.

use serde_json::{Value, json};
use support::objects::{Gateway, Local, Manifest, Mirror, local, mirror, pod_status};

use crate::plan::{CLUSTERS, Member, NAMESPACE, SERVICES, Service};

/// What one cluster sees: which members there are, and whose gateway is down.
pub struct View<'v> {
    /// The index of the cluster that looks.
    pub viewer: usize,
    pub members: &'v [Member],
    pub is_down: [bool; CLUSTERS.len()],
}

// === impl View ===

impl View<'_> {
    /// As a file, which needs no API server.
    pub fn manifest(&self) -> String {
        let own = SERVICES.iter().map(|service| {
            let mut own = Manifest::from(self.local(service));
            own.0[0] = self.own_service(service);
            own
        });
        let mirrors = self.mirrors().map(Manifest::from);
        own.chain(mirrors).collect::<Manifest>().list()
    }

    /// As objects of an API server, whose controllers make the slices: of the pods, and of the mirrors' Endpoints.
    pub fn objects(&self) -> Vec<Value> {
        let own = SERVICES.iter().map(|service| {
            let mut own = self.own_service(service);
            own["spec"]["selector"] = json!({"app": service.name});
            own
        });
        let mirrors = self.mirrors().flat_map(|mirror| mirror.writes());
        own.chain(mirrors).collect()
    }

    /// The pods of this cluster, each with the status that a kubelet would report.
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

    /// Kubernetes calls every endpoint ready where not-ready addresses are published.
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

//! Changes of the running clusters: links, addresses, failures of the network, failover orders.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::Clusters;
use super::mirrors::Expected;
use super::plan::{ALL, CLUSTERS, EAST, Member, Service};
use crate::recordings::{Action, Event};

// === impl Clusters ===

impl Clusters {
    /// Links a further cluster to those that are linked already.
    pub fn link(&mut self, cluster: usize) -> Result<()> {
        self.linked.insert(cluster);
        self.write_objects()
    }

    /// Gives a member of another cluster new synthetic addresses, as Linkerd does after a restart of the pod: the mirror
    /// is deleted and created again.
    pub fn renumber(&mut self, member: Member) -> Result<()> {
        self.remove(member)?;
        self.take_back(member)
    }

    /// The pod of a member of another cluster ends, and has no successor.
    pub fn lose(&mut self, member: Member) -> Result<()> {
        self.remove(member)?;
        self.write_objects()
    }

    /// Deletes the mirror of a member in `east`. Packets from there to its address are dropped.
    fn remove(&mut self, lost: Member) -> Result<()> {
        let known = self.members.iter().find(|member| member.is_same(&lost));
        let lost = *known.context("there is no such member")?;
        let address = lost.synthetic_address(EAST);
        let mirror = self.view(EAST).mirror(lost.service, lost.cluster);
        let object = mirror.endpoint_mirror(&lost.host(), &[&address]);
        self.api.delete(&object)?;
        let (namespace, name) = (
            &object["metadata"]["namespace"],
            &object["metadata"]["name"],
        );
        let metadata = json!({"namespace": namespace, "name": name});
        // Otherwise Kubernetes could delete the successor, which has the same name.
        self.api.write(&Event {
            time: 0,
            action: Action::Deleted,
            object: json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}),
        })?;
        // Between connection tracking and destination NAT.
        self.networks[EAST].nft(&format!(
            "table ip retired {{
                chain output {{
                    type filter hook output priority -150
                    ip daddr {address} drop
                }}
            }}"
        ))?;
        self.members.retain(|member| *member != lost);
        self.lost.push(lost);
        Ok(())
    }

    /// A lost member is back, with new synthetic addresses.
    pub fn take_back(&mut self, member: Member) -> Result<()> {
        let at = self.lost.iter().position(|lost| lost.is_same(&member));
        let mut member = self.lost.remove(at.context("this member is not lost")?);
        member.renumbered += 1;
        for (viewer, network) in self.networks.iter().enumerate() {
            if viewer != member.cluster {
                network.nft(&member.proxy_rules(viewer))?;
            }
        }
        self.members.push(member);
        self.write_objects()
    }

    /// Sets the failover order of a Service by an annotation of the Service in `east`.
    pub fn set_failover(&mut self, service: &'static Service, order: &str) -> Result<()> {
        self.failover = Some((service, order.to_owned()));
        self.write_objects()
    }

    /// Sets the expected clusters of a Service by an annotation of the Service in every cluster, for an hour.
    pub fn expect_clusters(
        &mut self,
        service: &'static Service,
        clusters: &'static str,
    ) -> Result<()> {
        self.expected = Some(Expected {
            service,
            clusters,
            until: format!("{:.0}", Timestamp::now() + SignedDuration::from_hours(1)),
        });
        self.write_objects()
    }

    /// Disconnects a cluster from the network. Gateway probes in all clusters detect it.
    pub fn cut(&mut self, cluster: usize) -> Result<()> {
        self.bridge
            .ip(&format!("link set {} down", CLUSTERS[cluster].name))?;
        self.disconnected = Some(cluster);
        self.write_objects()
    }

    /// Disconnects a cluster, and waits until every cluster answers without it.
    pub fn disconnect(&mut self, cluster: usize) -> Result<()> {
        self.check_reachability(cluster)?;
        self.cut(cluster)?;
        for service in &self.services {
            for viewer in ALL {
                let alive: Vec<usize> = ALL
                    .into_iter()
                    .filter(|&other| !self.is_gateway_down(viewer, other))
                    .collect();
                self.check_answer(viewer, service, &alive)?;
            }
        }
        self.check_member_names()
    }

    /// Reconnects the disconnected cluster to the network.
    pub fn restore(&mut self) -> Result<()> {
        let cluster = self
            .disconnected
            .take()
            .context("no cluster is disconnected")?;
        self.bridge
            .ip(&format!("link set {} up", CLUSTERS[cluster].name))?;
        self.write_objects()
    }

    /// Reconnects the disconnected cluster, and waits until every cluster answers with it.
    pub fn reconnect(&mut self) -> Result<()> {
        self.restore()?;
        for viewer in ALL {
            for service in &self.services {
                self.check_answer(viewer, service, &ALL)?;
            }
        }
        Ok(())
    }

    /// Asserts that members of another cluster are reachable at their synthetic addresses, and at no other address.
    fn check_reachability(&self, cluster: usize) -> Result<()> {
        let gateway = CLUSTERS[cluster].gateway;
        let connect = |address: &str, port| -> Result<TcpStream> {
            let address = SocketAddr::new(address.parse()?, port);
            // Long enough for a bridge. Dropped packets get no reply.
            Ok(TcpStream::connect_timeout(
                &address,
                Duration::from_secs(1),
            )?)
        };
        for member in self
            .members
            .iter()
            .filter(|member| member.cluster == cluster)
        {
            let (_, port) = member.service.port_numbers[1];
            let address = member.synthetic_address(EAST);
            connect(&address, port).with_context(|| format!("{address}:{port}"))?;
            ensure!(
                connect(gateway, port).is_err(),
                "{gateway}:{port} accepts connections"
            );
        }
        Ok(())
    }
}

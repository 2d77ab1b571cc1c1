//! The [`Table`] of services, the step that builds it from objects, and the swap that makes it current.
//!
//! ```text
//! watch events → store → build (candidates → choose → order → service) → Table → publish
//! ```
//!
//! The table holds services, not names. [`zone::read`](crate::zone::read()) maps the labels of a question to a
//! [`Service`]. Memory therefore grows with the number of endpoints, not with endpoints × names × ports. A table is
//! immutable. [`build`](build::build) makes the next table and shares every service that did not change. The table
//! depends neither on a Kubernetes client nor on a DNS library.
//!
//! # Rules of membership
//!
//! An endpoint has a cluster, a hostname, addresses, ports, and a liveness. All of them come from objects that Linkerd
//! 2.11 and later write. The code refers to these rules by number.
//!
//! **M1.** An endpoint mirror represents a remote endpoint. It is a Service with label
//! `mirror.linkerd.io/headless-mirror-svc-name`. Its cluster is label `mirror.linkerd.io/cluster-name`. Its hostname and service
//! come from annotation `mirror.linkerd.io/remote-svc-fq-name`. Its addresses are `spec.clusterIPs`, and its ports are
//! `spec.ports[].port`. The namespace is always `metadata.namespace`. If the annotation names another namespace, the object is
//! skipped, so that no object can add endpoints to a service of another namespace. The slices of the headless mirror give no
//! endpoint, except by rule M1b, and no port number: they contain the port of the remote pod and stay not ready after a gateway
//! has recovered. Tests: `src/model/parse/tests.rs`, `src/table/build/tests.rs`, `src/zone/tests/namespaces.rs`.
//!
//! **M1c.** The slices of the headless mirror say which named ports a host has. Their port numbers are those of the remote pods
//! and are not used. If a slice lists the host, its endpoint has the ports of its mirror with these names, if there is one, else
//! all. Tests: `tests/fuzz/checks/unions.rs`, `src/table/tests.rs`.
//!
//! **M2.** An endpoint mirror needs a parent: the headless mirror that its label names. The parent is in the same namespace, has
//! `clusterIP: None`, and has the same cluster and service. An endpoint mirror without a parent is skipped. Tests:
//! `src/table/build/tests.rs`.
//!
//! **M3.** An endpoint is alive if one of its own EndpointSlices has a ready gateway address. Without a slice, or with slices
//! without endpoints, it is alive. Tests: `src/table/build/tests.rs`, `tests/fuzz/checks/unions.rs`.
//!
//! **M4.** If a gateway is down, its endpoints are omitted. If all endpoints of a name are down, all are returned. Endpoints of
//! an unlinked cluster are down, too (L3). This is decided once for each owner name, not for each record type. A `_P._R.` form
//! has the endpoints of its name; if none of them has the port, it returns those that are down. `gatewayDown`, and annotation
//! `global-dns/gateway-down` on the Service of this cluster (K6), change the rule: `include` omits none. Tests:
//! `src/zone/tests/edges.rs`, `tests/fuzz/checks/unions.rs`.
//!
//! **M5.** A headless Service of this cluster is a member of the service with its name if it is exported, if it has an annotation
//! of this server, or if a mirror of its name and namespace exists, of any kind (`localMembers`). One that is a member only
//! because of a mirror leaves with the last mirror, and a note says so before. Its endpoints are the ready endpoints of all its
//! slices. Its ports are those of the slices. Services without a selector count, too. Tests: `tests/fuzz/checks/unions.rs`,
//! `tests/fast/integration/members/settings.rs`.
//!
//! **M6.** A cluster has one name. `--cluster-name` names this cluster. The label names another cluster, and `clusterAliases` can
//! change that name. If two sources have one name, such as two Links to one cluster, their endpoints are merged and a conflict is
//! reported; what is down of one goes while the other is alive. Tests: `src/table/build/tests.rs`,
//! `tests/fast/integration/members/settings.rs`.
//!
//! **M7.** The annotation of M1 gives the names. If it is absent, the exact suffix `-CLUSTER` is removed from the object's name
//! once. If the name has no such suffix, the object is skipped. Tests: `src/model/parse/tests.rs`.
//!
//! **M8.** An update may change which service or endpoint an object mirrors. The object then moves to that service. Tests:
//! `src/table/build/tests.rs`.
//!
//! **M9.** An object that cannot be used is skipped with a [reason](crate::model::ProblemKind), counted, and shown by `explain`.
//! It never stops a watch. An endpoint is also skipped if its name exceeds the limits of DNS. Tests: `src/model/parse/tests.rs`,
//! `src/table/tests.rs`, `tests/fast/integration/file_source/errors.rs`.
//!
//! # Kinds of services
//!
//! M1 to M9 are the rules of headless services. Services of other kinds have cluster IPs. All decisions follow from the
//! objects of this moment. A process remembers only the timers of failovers (K7), for ten seconds the settings of a
//! Service that is gone (K6), and since when a cluster has no Link (L2).
//!
//! | kind | recognized by | endpoints | alive |
//! |---|---|---|---|
//! | `headless` | M1, M2 | one for each remote pod, `H.C.S.N.Z` | M3 |
//! | `gateway` | a mirror with a cluster IP and a cluster name | one for each cluster, `C.S.N.Z`: `spec.clusterIPs` | one of its own EndpointSlices has a ready address. Without a slice, the exported Service has no ready endpoint |
//! | `flat` | label `multicluster.linkerd.io/remote-discovery` | as `gateway` | always: the mesh finds the pods |
//! | `federated` | a mirror without a cluster name, with annotation `multicluster.linkerd.io/remote-discovery` or `…/local-discovery` | one address, which belongs to no cluster | always |
//! | `local` | M5; with a cluster IP, an exported Service | pods of a headless Service; `spec.clusterIPs` | one of its slices has a ready endpoint |
//!
//! An object with label `multicluster.kubernetes.io/service-name` belongs to the Multi-Cluster Services API, also if it has
//! labels of Linkerd: an implementation may copy labels of the exported Service to it. Such a Service is skipped as
//! `internal`, and its slices are not read.
//!
//! **M1b.** A pod with an exported Service of its own has no endpoint mirror. The headless mirror lists the address of that
//! Service's mirror under the hostname of the pod. It is an endpoint with that hostname. Tests: `tests/fuzz/checks/unions.rs`.
//!
//! **K1.** Each cluster is answered by its best candidate. A newcomer adds its own cluster and takes none away. A *candidate* is
//! what one item offers for a set of clusters: a headless mirror its pods (only with an endpoint), a mirror with a cluster IP its
//! address, the Service of this cluster its pods or its address (M5; with a cluster IP only if it is exported), a federated
//! service one address for the clusters that its annotations name. For each cluster, the first of these answers: pods, federated,
//! cluster IP (gateway, flat, or of this cluster). Equal ranks unite. Candidates of an unlinked cluster come after all others
//! (L3). With a failover order, candidates for several clusters (a federated service of one cluster is that cluster's) are left
//! out before, unless nothing else exists: then the order does not apply, which is a note if it is the default one, and an error
//! otherwise. `S.N.Z` is the union of the chosen candidates, each address once. A name with several kinds has a note, and a
//! warning for each cluster with one address where others have pods. Candidates that are not chosen keep the names of their
//! cluster. Tests: `tests/fuzz/checks/unions.rs`, `tests/fast/fuzz/sequences.rs`, `src/table/build/tests.rs`.
//!
//! **K2.** The target of an SRV record of a cluster IP is `C.S.N.Z`, and of a federated service `S.N.Z`. Its port is the one of
//! `spec.ports`. Tests: `tests/support/names.txt`, `src/zone/tests/edges.rs`, `src/zone/tests/kinds.rs`.
//!
//! **K3.** Namespace, service and cluster follow M1. Labels of a flat mirror that disagree with them: the object is skipped. The
//! name of a federated service is `metadata.name` without the suffix `-federated`; one without a member that can be read offers
//! nothing. Tests: `src/model/parse/tests.rs`.
//!
//! **K4.** An object may change its kind in place, and a service its kind in one cluster only. A mirror may exist for some
//! milliseconds before its slice, and may be deleted and added again with another address within milliseconds. Tests:
//! `tests/fast/recordings` (25, 28).
//!
//! **K9.** A zone with the grammar `mcs` has the names of KEP-1645 and no others (see [`zone`](crate::zone)), over the same
//! table. The target of an SRV record of a cluster IP is the name of the service, and equal records occur once. Tests:
//! `tests/fast/conformance/kep1645.rs`.
//!
//! **K10.** A zone of one cluster has the endpoints of that cluster without its label: no alias, no member of this cluster, no
//! federated address. No order applies; expected clusters apply as to `C.S.N.Z`. Tests: `tests/fuzz/checks/worlds.rs`,
//! `tests/fast/conformance/zones.rs`.
//!
//! An alias has the items of its sources, beside its own, so that all rules act once for it, with the settings for the alias. All its
//! names are its own. A service has at most 128 distinct ports.
//!
//! # Failover and expected clusters
//!
//! These rules apply to `S.N.Z`, its short name and their `_P._R.` forms, after K1. Names of a cluster or an endpoint are not
//! affected, except by K8.
//!
//! **K5.** A failover order has steps, separated by `:`: a cluster (its name after aliases), several joined by `+`, `local`
//! (always this cluster), or `*` (all clusters that no step names), such as `local:east+west:*`. Spaces are ignored, `,` means
//! `:`, and upper case is lower case. An empty annotation is no order, and overrides the flags. One of more than 2,560 octets or
//! 32 names is a held order of one step without endpoints. A name that is empty or cannot be read keeps its place, as a cluster
//! without endpoints, and is an error; at the end of the order, an empty one is ignored. A cluster that occurs twice is an error,
//! and its first place counts. The order acts after K1 and K8 and before M4, which acts within the step. Steps never answer
//! together. If the chosen step has no endpoint, the name fails with SERVFAIL. Tests: `src/model/failover_order/tests.rs`,
//! `src/zone/tests/failover.rs`, `tests/fast/fuzz/sequences.rs`.
//!
//! **K5a.** An order is held, unless it begins with `auto:`. If it is held, the first step answers, alive or not, until a person
//! changes it; if it is down, a warning has the command that lets another one answer. `auto:` moves by itself (K7), for whatever
//! service it is written; for one with pods, of which there is a headless mirror, or a headless Service of this cluster with a
//! selector or an endpoint, this is a warning. Nothing else depends on pods, but `failover.default`, which is not for them. A
//! cluster of an order that cannot be read or that has no mirror and no Link is an error, with the nearest name; so is a step
//! with `auto:` that is flat or federated and not the last: it is always alive. An order that is too large is held, also with
//! `auto:`. Tests: `src/table/failover/tests.rs`, `tests/fast/fuzz/sequences.rs`.
//!
//! **K6.** This cluster decides, never a mirror. Failover, expected clusters, the rule for gateways and the TTL come from the
//! first of these that is present: the annotation on the Service of this cluster with that name (of any type and without any
//! label, but neither a mirror nor derived by MCS), `services` of the settings, the settings for all services (`failover.default`
//! applies only to services with a member and without pods); expected clusters from the annotation only. Any other annotation
//! `global-dns/…` is an error, with the nearest name. A Service without endpoints is no candidate. Annotations of mirrors are
//! ignored, except that `global-dns/ttl` of a mirror may lower the TTL. A setting ends with the Service that carries it, but an
//! order outlives its deleted Service by ten seconds, so that a Service that is replaced does not join steps. A setting that is
//! removed from a Service ends at once. Tests: `tests/fuzz/checks/orders.rs`, `src/table/tests.rs`, `src/zone/tests/failover.rs`.
//!
//! **K7.** Each step of an `auto:` order is debounced alone: it stops counting as alive after `failover.delay` without an
//! endpoint that is alive, and counts again after `failover.back` of being alive; interruptions shorter than `failover.delay` do
//! not restart that. The first step that counts as alive and has an endpoint answers; else the first with an endpoint that is
//! alive; else the first with an endpoint. But the step that answers stays while it is alive, until an earlier step counts as
//! alive, or is alive within 500 ms after the later one began to answer: nobody leaves a step that is alive for a later one. In
//! the first table, and under a changed order, a step counts as it is. Those of a service that is new in a running process count
//! as alive, because a mirror comes before its slice. What is known of a service without objects is dropped after
//! `failover.back`. `tests/k7/k7.py` is this rule as a program. Tests: `src/table/failover/tests.rs`,
//! `tests/fast/recordings/k7.rs`, `tests/system/peers/k7.rs`.
//!
//! **K8.** Clusters that a service expects: annotation `global-dns/expected-clusters` on the Service of this cluster, such as
//! `east+west+north until 2026-12-01T12:00Z`. Until that time, else for one hour after the Service was created (a creation in the
//! future counts as now), by the wall clock, questions for A, AAAA, SRV and ANY at the name fail unless each of these clusters
//! has an endpoint here, alive or not. A federated service counts the clusters of its members. So do `C.S.N.Z` and the names
//! below it of a cluster that is missing meanwhile: a seed that names one cluster must not be believed absent. A name that cannot
//! be read is a missing cluster. Afterwards the setting closes nothing and goes on watching: a cluster that is missing is a
//! warning. Tests: `src/model/failover_order/expected_clusters.rs`, `src/table/failover/tests/gate.rs`, `src/zone/tests/failover.rs`,
//! `tests/fast/integration/members/expected_clusters.rs`.
//!
//! # Links
//!
//! Linkerd keeps the mirrors of a Link that was deleted, and a mirror controller that stopped leaves mirrors and liveness as they
//! were. So what this server sees can be old while every watch is healthy.
//!
//! **L1.** In the namespaces of `links.namespaces`, this server watches Links (`spec.targetClusterName`, and for `explain`
//! `spec.targetClusterDomain`; their status is not trusted), and lists the Leases `service-mirror-write-LINK` of mirror
//! controllers every ten seconds. Links elsewhere are ignored: everybody with rights in a namespace could make one there. Without
//! the CRD or the right, nothing changes (L2, unknown), and `check` says what is missing. Tests:
//! `src/source/kube/tests/links.rs`, `src/model/lease.rs`, `tests/fast/recordings/links.rs`, `tests/system/e2e/links.rs`.
//!
//! **L2.** Every cluster that a mirror, a Link or a Lease names, as its Link names it, has the state of the best of its Links;
//! only the states that a change, a Lease or the time can have changed are determined again. *linked*: a Link names it. *frozen*:
//! its Lease has not changed for 45 seconds, as this process saw it, or is released for as long; no clocks are compared. A Link
//! without a Lease is linked. *missing*: this process saw its last Link go, or saw it first without one, less than
//! `links.unlinkedAfter` ago. *unlinked*: for longer, or the first complete list does not have it, also if no Link is left. While
//! a namespace cannot be read, no cluster becomes unlinked. *unknown*: the API server does not define Links, the namespaces have
//! neither a Link nor a Lease of a mirror controller, or a namespace cannot be read and no other Link names the cluster. Tests:
//! `src/table/links/tests.rs`, `tests/fast/recordings/links.rs`.
//!
//! **L3.** An endpoint of an unlinked cluster is down (M4), and its candidates come after all others (K1). It is omitted, also
//! with `include`, while a linked endpoint is alive; if none is, all are answered. A federated address is down if all its
//! clusters are unlinked. Pods of this cluster and clusters without mirrors have no state. Tests: `src/zone/tests/links.rs`,
//! `tests/fast/fuzz/sequences.rs`.
//!
//! **L4.** A frozen cluster changes no answer. It is a problem. Tests: `src/table/links/tests.rs`.
//!
//! **L5.** A cluster that leaves a service, or that is unlinked, is a change in the log and the events, with its last endpoints
//! and the cause that was seen, and is counted. Tests: `src/table/diff/tests.rs`.
//!
//! `tests/fast/recordings` replays events of Linkerd's mirror controller against all rules.

pub mod build;
mod build_service;
mod candidate;
pub mod change;
mod choose;
pub(crate) mod content;
mod context;
pub mod diff;
mod endpoint;
pub mod failover;
mod hash;
mod headless;
mod history;
pub mod links;
mod local;
pub mod name_index;
mod order;
mod problems;
pub mod publish;
mod rules;
mod service;
mod shared;
mod short;
pub mod store;

pub use build::{Build, Built, build};
pub use content::{Claim, Difference, NoOwner, Published, ShortName, Table};
pub use context::{ServiceTimers, Timers};
pub use endpoint::{Address, Endpoint, EndpointLiveness, MissingHost, Role, ServiceKind};
pub use history::Moment;
pub use name_index::{Members, Property, SharedPort};
pub use publish::Publisher;
pub use rules::{Aliases, DEFAULT_CLUSTER_NAME, LocalMembers, Rules, ShortNames};
pub use service::{NameFailure, Service};
pub use store::Store;

#[cfg(test)]
mod tests;

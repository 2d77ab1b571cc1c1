//! The labels and annotations that are read.

/// `true` on every mirrored object.
pub const MIRRORED_SERVICE: &str = "mirror.linkerd.io/mirrored-service";
/// Cluster name of a Link, on all mirrors except federated services.
pub const CLUSTER_NAME: &str = "mirror.linkerd.io/cluster-name";
/// Name of the headless mirror, on endpoint mirrors and their slices.
pub const HEADLESS_MIRROR: &str = "mirror.linkerd.io/headless-mirror-svc-name";
/// Fully qualified name of the remote Service or endpoint (annotation).
pub const REMOTE_FQ_NAME: &str = "mirror.linkerd.io/remote-svc-fq-name";
/// Value of a Service that is exported: `true` (through a gateway) or `remote-discovery` (in a flat network).
pub const EXPORTED: &str = "mirror.linkerd.io/exported";
/// `member` of a Service that is a member of a federated service.
pub const FEDERATED: &str = "mirror.linkerd.io/federated";
/// Cluster of a flat mirror (label); members of a federated service in other clusters (annotation).
pub const REMOTE_DISCOVERY: &str = "multicluster.linkerd.io/remote-discovery";
/// Name of the exported Service, on flat mirrors.
pub const REMOTE_SERVICE: &str = "multicluster.linkerd.io/remote-service";
/// Member of a federated service in this cluster (annotation).
pub const LOCAL_DISCOVERY: &str = "multicluster.linkerd.io/local-discovery";
/// Present on slices of headless Services with a selector.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// Name of the Service of a slice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Controller that manages a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// On Services and slices of the Multi-Cluster Services API (KEP-1645), which are not read.
pub const MCS_SERVICE: &str = "multicluster.kubernetes.io/service-name";
/// Cluster of the endpoints in a slice of the Multi-Cluster Services API or of Cilium Cluster Mesh.
pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
/// Annotation of this server: TTL of the service's records, in seconds.
pub const TTL: &str = "global-dns/ttl";
/// Annotation of this server: treatment of endpoints with a gateway that is down.
pub const GATEWAY_DOWN: &str = "global-dns/gateway-down";
/// Annotation of this server on a Service of this cluster: its failover order.
pub const FAILOVER: &str = "global-dns/failover";
/// Annotation of this server on a Service of this cluster: the clusters that its name expects.
pub const EXPECTED_CLUSTERS: &str = "global-dns/expected-clusters";

/// The value of [`MANAGED_BY`] of the controller of Kubernetes, for Services with a selector.
pub const KUBERNETES: &str = "endpointslice-controller.k8s.io";
/// The value of [`MANAGED_BY`] of the controller of Cilium Cluster Mesh. It writes endpoints of other clusters to slices of a Service of
/// this cluster.
pub const CILIUM_MESH: &str = "endpointslice-mesh-controller.cilium.io";

/// The annotations of this server.
pub const SETTINGS: [&str; 4] = [TTL, GATEWAY_DOWN, FAILOVER, EXPECTED_CLUSTERS];

//! Values of the chart: the minimum, every flag, and combinations.

use serde_json::{Map, Value, json};
use support::repository::repository;

/// Combinations of values as in a file of values, without the minimum.
const COMBINATIONS: &str = r#"
minimum values: {}

every flag that this cluster's watches permit, none with its default:
  zones: [global.internal, svc.example.com, clusterset.local=mcs]
  clusterAliases: {link-west: west}
  excludeClusters: [old]
  ttl: 7
  ttlMax: 60
  negativeTtl: 9
  shortNames: {which: pinned, defaultNamespace: prod, pinned: {db: prod, cache: shop}}
  gatewayDown: include
  localMembers: exported
  aliases: {crdb.prod: [crdb.crdb-east, crdb.crdb-west]}
  failover:
    default: "local:*"
    services: {prod/db: "west:east", shop/pay: "auto:east+west:*"}
    delay: 5s
    failbackDelay: 1m
  # Without Links, the other flags of Links are not passed.
  links: {enabled: true, namespace: [multicluster, links], unlinkedAfter: 10m}
  order: local-first
  nsAddresses: [192.0.2.1, "2001:db8::1"]
  udpMax: 4096
  udpWorkers: 2
  tcpConnections: 9
  tcpConnectionsPerAddress: 3
  allow: [10.0.0.0/8, "2001:db8::/32"]
  serverId: $(POD_NAME)
  listen: ["0.0.0.0:1053", "[::]:1053"]
  adminListen: [":8080"]
  apiListen: ["localhost:9154"]
  apiHosts: [dns.example.com, "2001:db8::1"]
  encrypted:
    secretName: global-dns-tls
    clientCASecretName: global-dns-clients
    tlsListen: ["0.0.0.0:5853"]
    quicListen: ["0.0.0.0:8853"]
  namespaces: [prod, shop]
  graceSeconds: 40
  log: {level: "info,global_dns::source=debug", format: json}

a pinned address:
  service: {clusterIP: 10.96.0.53}

two address families, traffic to nearby pods:
  service: {ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4], trafficDistribution: PreferClose}

a DaemonSet:
  kind: DaemonSet
  tolerations: [{operator: Exists}]
  updateStrategy: {type: OnDelete}
  revisionHistoryLimit: 0
  service: {internalTrafficPolicy: Local}
  links: {enabled: false}

a load balancer for every listener:
  service:
    type: LoadBalancer
    loadBalancerIP: 192.0.2.53
    loadBalancerClass: example.com/internal
    loadBalancerSourceRanges: [192.0.2.0/24, 198.51.100.0/24]
    externalTrafficPolicy: Cluster
    annotations: {example.com/scheme: internal}
  serviceMonitor: {enabled: true}
  encrypted: {secretName: global-dns-tls, tlsListen: ["0.0.0.0:5853"], quicListen: ["0.0.0.0:5853"]}

node ports, DNS over TLS:
  service: {type: NodePort}
  encrypted: {secretName: global-dns-tls, tlsListen: ["[::]:5853"]}
  alerts: {enabled: true}

external addresses, DNS over QUIC:
  service: {externalIPs: [192.0.2.53]}
  encrypted: {secretName: global-dns-tls, quicListen: ["0.0.0.0:5853"]}
  alerts: {enabled: true}

client certificates, several ports for each listener:
  listen: ["0.0.0.0:1053", "[::]:1054"]
  adminListen: ["0.0.0.0:8080", "[::]:8081"]
  encrypted:
    secretName: global-dns-tls
    clientCASecretName: global-dns-clients
    tlsListen: ["0.0.0.0:5853", "[::]:5854"]
    quicListen: ["0.0.0.0:5853", "[::]:5855"]

common labels and annotations, monitoring:
  commonLabels: {example.com/team: dns, app.kubernetes.io/name: not-this, app.kubernetes.io/component: not-this}
  commonAnnotations: {example.com/owner: dns, linkerd.io/inject: enabled, helm.sh/hook: pre-install}
  workloadAnnotations: {example.com/reload: "true"}
  podLabels: {example.com/team: pods, app.kubernetes.io/name: not-this}
  podAnnotations: {example.com/note: hello, linkerd.io/inject: enabled}
  service: {annotations: {example.com/owner: network}}
  namespaces: [prod]
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  alerts: {enabled: true, labels: {release: prometheus}, ignoredConflicts: [kind, not-exported]}
  dashboard: {enabled: true, annotations: {grafana_folder: DNS}}

another user and another life cycle:
  podSecurityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000}
  securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}
  livenessProbe: {initialDelaySeconds: 5, periodSeconds: 20, failureThreshold: 6}
  readinessProbe: {timeoutSeconds: 1, successThreshold: 2}
  updateStrategy: {type: Recreate}
  terminationGracePeriodSeconds: 60
  graceSeconds: 50
  revisionHistoryLimit: 3

another environment:
  updateStrategy: {rollingUpdate: {maxSurge: 50%, maxUnavailable: 1}}
  extraEnv:
  - {name: GLOBAL_DNS_SERVER_ID, value: from the environment}
  - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  dnsPolicy: None
  dnsConfig: {nameservers: [192.0.2.54], searches: [example.com], options: [{name: ndots, value: "1"}]}

the node's network:
  hostNetwork: true
  listen: ["0.0.0.0:1053"]
  replicas: 3

a DaemonSet on the node's network:
  hostNetwork: true
  kind: DaemonSet

spread by rack:
  topologySpreadConstraints:
  - {maxSkew: 2, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, minDomains: 2}
  - {maxSkew: 1, topologyKey: example.com/rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {team: dns}}}

strict spreading:
  replicas: 3
  priorityClassName: system-cluster-critical
  topologySpread: {nodes: DoNotSchedule, zones: DoNotSchedule}
  podDisruptionBudget: {maxUnavailable: 34%}
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchExpressions: [{key: dns, operator: Exists}]}}

a single replica:
  replicas: 1
  scrapeAnnotations: false
  topologySpread: {nodes: "", zones: ""}

Links in a watched namespace:
  namespaces: [prod, links]
  links: {namespace: links}

Links in several namespaces:
  links: {namespace: [multicluster, links], unlinkedAfter: 1h}

an existing service account:
  rbac: {create: false}
  serviceAccount: {create: false, name: dns}

a strict network policy:
  networkPolicy:
    dnsFrom: [{podSelector: {matchLabels: {k8s-app: kube-dns}}}]
    metricsFrom: [{namespaceSelector: {}}]
    egress: [{to: [{ipBlock: {cidr: 192.0.2.1/32}}], ports: [{port: 6443}]}]

no egress:
  networkPolicy: {egress: []}

no network policy, no budget:
  networkPolicy: {enabled: false}
  podDisruptionBudget: {enabled: false}

objects from files:
  source: {files: [/objects/one.yaml, /objects/two.yaml]}
  extraVolumes: [{name: objects, configMap: {name: objects}}]
  extraVolumeMounts: [{name: objects, mountPath: /objects, readOnly: true}]

another API server:
  source: {kubeconfig: /objects/kubeconfig, context: other}
  extraVolumes: [{name: objects, configMap: {name: kubeconfig}}]
  extraVolumeMounts: [{name: objects, mountPath: /objects, readOnly: true}]

the longest name:
  fullnameOverride: a-name-of-63-octets-which-is-the-longest-one-that-is-possible-x
  dashboard: {enabled: true}

other names, an image by its digest:
  nameOverride: names
  image:
    repository: registry.example.com/dns/global-dns
    digest: sha256:0000000000000000000000000000000000000000000000000000000000000000
    pullPolicy: Always
  imagePullSecrets: [{name: registry}]

YAML booleans as values:
  shortNames: {which: false}
  localMembers: false
  extraArgs: [--server-id=none]
  nodeSelector: {}
  resources: {}
"#;

/// Returns the minimum values of an installation.
pub fn minimum() -> Value {
    json!({"clusterName": "hub", "image": {"repository": "registry.example.com/dns/global-dns"}})
}

/// Returns the minimum values together with these.
pub fn with(further: Value) -> Value {
    let (Value::Object(mut values), Value::Object(further)) = (minimum(), further) else {
        panic!("values are not an object")
    };
    values.extend(further);
    Value::Object(values)
}

/// Returns combinations of values with their names, and the ready value files, which install without further values.
pub fn matrix() -> Vec<(String, Value)> {
    let combinations: Map<String, Value> = serde_saphyr::from_str(COMBINATIONS).unwrap();
    let combinations = combinations
        .into_iter()
        .map(|(name, values)| (name, with(values)));
    let files = ["kind", "production", "locked-down", "daemonset"].map(|name| {
        let file = repository(&format!("charts/global-dns/examples/values/{name}.yaml"));
        let text = std::fs::read_to_string(&file).unwrap();
        (name.to_owned(), serde_saphyr::from_str(&text).unwrap())
    });
    combinations.chain(files).collect()
}

//! Values of the chart: the minimum, and combinations.

use serde_json::{Map, Value, json};
use support::repository::repository;

/// Combinations of values as in a file of values, without the minimum.
const COMBINATIONS: &str = r#"
minimum values: {}

# Every setting, without `listen` and `tls`, which are the chart's.
all settings:
  config:
    clusterName: hub
    zones: [global, {name: clusterset.local, grammar: mcs}]
    namespaces: []
    clusterAliases: {link-west: west}
    excludeClusters: [old]
    localMembers: matching
    gatewayDown: last-resort
    ttl: 5
    shortNames: {which: all, defaultNamespace: "", pinned: {db: prod}}
    aliases: {prod/crdb: [crdb-east/crdb, crdb-west/crdb]}
    services: {prod/db: {failover: "east:west", gatewayDown: include, ttl: 10}, shop/pay: {failover: "auto:east+west:*"}}
    failover: {default: "local:*", delay: 2s, back: 30s}
    links: {enabled: true, namespaces: [linkerd-multicluster], unlinkedAfter: 5m}
    answers: {order: rotate, udpMax: 1232, nsAddresses: [], serverId: ""}
    limits: {allow: [10.0.0.0/8, "2001:db8::/32"], connections: 256, udpWorkers: 0}
    history: 24h
    grace: 15s
    log: {level: info, format: text}

text that Kubernetes would expand:
  config: {clusterName: hub, answers: {serverId: "$(GLOBAL_DNS_SERVICE_HOST) costs $$1, <&> \"é\" 'x' {{ .Values }}"}}

null stands for the default:
  config: {clusterName: hub, zones: null, namespaces: null, links: {enabled: null, namespaces: null}, answers: null, ttl: null}

addresses of the name server:
  config: {clusterName: hub, answers: {nsAddresses: [192.0.2.1, "2001:db8::1"]}}

a pinned address:
  service: {clusterIP: 10.96.0.53}

two address families, traffic to nearby pods:
  service: {ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4], trafficDistribution: PreferClose}

a DaemonSet:
  kind: DaemonSet
  tolerations: [{operator: Exists}]
  updateStrategy: {type: OnDelete}
  service: {internalTrafficPolicy: Local}
  config: {clusterName: hub, links: {enabled: false}}

a load balancer for every listener:
  service:
    type: LoadBalancer
    loadBalancerIP: 192.0.2.53
    loadBalancerClass: example.com/internal
    loadBalancerSourceRanges: [192.0.2.0/24, 198.51.100.0/24]
    externalTrafficPolicy: Cluster
    annotations: {example.com/scheme: internal}
  serviceMonitor: {enabled: true}
  tls: {secretName: global-dns-tls, clientCASecretName: global-dns-clients}
  quic: {enabled: true}

node ports, DNS over TLS:
  service: {type: NodePort}
  tls: {secretName: global-dns-tls}
  serviceMonitor: {enabled: true}
  alerts: {enabled: true}

an API behind an Ingress, external addresses:
  service: {externalIPs: [192.0.2.53]}
  api: {hosts: [dns.example.com, "2001:db8::1"]}
  networkPolicy: {apiFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}]}

common labels and annotations, monitoring:
  commonLabels: {example.com/team: dns, app.kubernetes.io/name: not-this, app.kubernetes.io/component: not-this}
  commonAnnotations: {example.com/owner: dns, linkerd.io/inject: enabled, helm.sh/hook: pre-install}
  podAnnotations: {example.com/note: hello, linkerd.io/inject: enabled}
  service: {annotations: {example.com/owner: network}}
  config: {clusterName: hub, namespaces: [prod, "1234"]}
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  alerts: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true, annotations: {grafana_folder: DNS}}

another user and another life cycle:
  podSecurityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000}
  securityContext: {capabilities: {add: [NET_BIND_SERVICE]}}
  updateStrategy: {type: Recreate}
  config: {clusterName: hub, grace: 50s}
  terminationGracePeriodSeconds: 60

another environment:
  updateStrategy: {rollingUpdate: {maxSurge: 50%, maxUnavailable: 1}}
  extraEnv: [{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
  resources: {limits: null, requests: {cpu: 1}}
  nodeSelector: {kubernetes.io/arch: arm64}

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

an autoscaler:
  replicas: null

Links in a watched namespace and in another one:
  config: {clusterName: hub, namespaces: [prod, links], links: {namespaces: [multicluster, links]}}

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
  rbac: {viewer: {subjects: [{kind: Group, name: dns}, {kind: ServiceAccount, name: viewer, namespace: dns}]}}

an image by its digest:
  image:
    repository: registry.example.com/dns/global-dns
    digest: sha256:0000000000000000000000000000000000000000000000000000000000000000
    pullPolicy: Always
  imagePullSecrets: [{name: registry}]
"#;

/// Returns the minimum values of an installation.
pub fn minimum() -> Value {
    with(json!({}))
}

/// Returns these values, with those of the minimum that they lack.
pub fn with(further: Value) -> Value {
    let minimum = json!({"config": {"clusterName": "hub"}, "image": {"repository": "registry.example.com/dns/global-dns"}});
    let (Value::Object(mut values), Value::Object(further)) = (minimum, further) else {
        panic!("values are not an object")
    };
    values.extend(further);
    Value::Object(values)
}

/// Returns the minimum values with these settings.
pub fn with_settings(settings: &Value) -> Value {
    let mut values = minimum();
    let own = values["config"].as_object_mut().unwrap();
    own.extend(settings.as_object().unwrap().clone());
    values
}

/// Objects of GitOps with values for the chart, as a JSON pointer in the last document of each file.
const EXAMPLES: [(&str, &str); 2] = [
    ("flux", "/spec/values"),
    ("argo-cd", "/spec/source/helm/valuesObject"),
];

/// Returns combinations of values with their names, and the ready value files and examples, which install without further values.
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
    let examples = EXAMPLES.map(|(name, pointer)| {
        let file = repository(&format!("charts/global-dns/examples/{name}.yaml"));
        let text = std::fs::read_to_string(&file).unwrap();
        let last = text.rsplit("\n---\n").next().unwrap();
        let object: Value = serde_saphyr::from_str(last).unwrap();
        (name.to_owned(), object.pointer(pointer).unwrap().clone())
    });
    combinations.chain(files).chain(examples).collect()
}

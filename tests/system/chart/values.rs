//! Values of the chart: the minimum, every flag, and a matrix of combinations.

use serde_json::{Map, Value, json};
use support::repository::repository;

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

/// Returns values for every flag that can be combined with watches of this cluster, none with its default.
pub fn every_flag() -> Map<String, Value> {
    let values = json!({
        "clusterName": "hub", "image": {"repository": "registry.example.com/dns/global-dns"},
        "zones": ["global.internal", "svc.example.com", "clusterset.local=mcs"],
        "clusterAliases": {"link-west": "west"}, "excludeClusters": ["old"],
        "ttl": 7, "ttlMax": 60, "negativeTtl": 9,
        "shortNames": {"which": "pinned", "defaultNamespace": "prod", "pinned": {"db": "prod", "cache": "shop"}},
        "gatewayDown": "include", "localMembers": "exported",
        "order": "local-first", "nsAddresses": ["192.0.2.1", "2001:db8::1"],
        "udpMax": 4096, "udpWorkers": 2, "tcpConnections": 9, "tcpConnectionsPerAddress": 3,
        "allow": ["10.0.0.0/8", "2001:db8::/32"],
        "serverId": "$(POD_NAME)",
        "listen": ["0.0.0.0:1053", "[::]:1053"], "adminListen": [":8080"], "apiListen": ["localhost:9154"],
        "apiHosts": ["dns.example.com", "2001:db8::1"],
        "encrypted": {"secretName": "global-dns-tls", "clientCASecretName": "global-dns-clients",
            "tlsListen": ["0.0.0.0:5853"], "quicListen": ["0.0.0.0:8853"]},
        "namespaces": ["prod", "shop"],
        "graceSeconds": 40,
        "log": {"level": "info,global_dns::source=debug", "format": "json"},
    });
    let Value::Object(mut values) = values else {
        panic!("values are not an object")
    };
    let failover = json!({
        "aliases": {"crdb.prod": ["crdb.crdb-east", "crdb.crdb-west"]},
        // Without Links, the other flags of Links are not passed.
        "links": {"enabled": true, "namespace": ["multicluster", "links"], "unlinkedAfter": "10m"},
        "failover": {"default": "local:*", "services": {"prod/db": "west:east", "shop/pay": "auto:east+west:*"}, "delay": "5s", "failbackDelay": "1m"},
    });
    values.extend(failover.as_object().cloned().unwrap_or_default());
    values
}

/// Returns combinations of values with their names, and the ready value files.
pub fn matrix() -> Vec<(&'static str, Value)> {
    let mut all = combinations();
    all.extend(files());
    all
}

/// Returns the ready value files. Each installs without further values.
fn files() -> [(&'static str, Value); 4] {
    ["kind", "production", "locked-down", "daemonset"].map(|name| {
        let file = repository(&format!("charts/global-dns/examples/values/{name}.yaml"));
        let text = std::fs::read_to_string(&file).unwrap();
        (name, serde_saphyr::from_str(&text).unwrap())
    })
}

fn combinations() -> Vec<(&'static str, Value)> {
    let selector = json!({"podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}});
    let volume = |name: &str| {
        json!({
            "extraVolumes": [{"name": "objects", "configMap": {"name": name}}],
            "extraVolumeMounts": [{"name": "objects", "mountPath": "/objects", "readOnly": true}],
        })
    };
    let and = |mut values: Value, further: Value| {
        let further = further.as_object().cloned().unwrap_or_default();
        values.as_object_mut().unwrap().extend(further);
        values
    };
    vec![
        ("minimum values", minimum()),
        (
            "a pinned address",
            with(json!({"service": {"clusterIP": "10.96.0.53"}})),
        ),
        (
            "two address families",
            with(
                json!({"service": {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"],
            "annotations": {"example.com/team": "dns"}}}),
            ),
        ),
        (
            "a DaemonSet",
            with(
                json!({"kind": "DaemonSet", "tolerations": [{"operator": "Exists"}],
            "service": {"internalTrafficPolicy": "Local"}}),
            ),
        ),
        (
            "a DaemonSet without additional tolerations",
            with(
                json!({"kind": "DaemonSet", "updateStrategy": {"type": "OnDelete"}, "revisionHistoryLimit": 0,
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "example.com/rack",
                "whenUnsatisfiable": "ScheduleAnyway"}]}),
            ),
        ),
        (
            "a load balancer",
            with(
                json!({"service": {"type": "LoadBalancer", "loadBalancerIP": "192.0.2.53",
            "loadBalancerClass": "example.com/internal", "loadBalancerSourceRanges": ["192.0.2.0/24", "198.51.100.0/24"],
            "externalTrafficPolicy": "Cluster", "annotations": {"example.com/scheme": "internal"}},
            "serviceMonitor": {"enabled": true}}),
            ),
        ),
        (
            "node ports",
            with(
                json!({"service": {"type": "NodePort"}, "encrypted": {"secretName": "global-dns-tls",
            "tlsListen": ["[::]:5853"]}}),
            ),
        ),
        (
            "external addresses",
            with(json!({"service": {"externalIPs": ["192.0.2.53"]}})),
        ),
        (
            "traffic to nearby pods",
            with(json!({"service": {"trafficDistribution": "PreferClose"}})),
        ),
        (
            "common labels and annotations",
            with(
                json!({"commonLabels": {"example.com/team": "dns", "app.kubernetes.io/name": "not-this"},
            "commonAnnotations": {"example.com/owner": "dns", "linkerd.io/inject": "enabled"},
            "workloadAnnotations": {"example.com/reload": "true"}, "podLabels": {"example.com/team": "pods"},
            "service": {"annotations": {"example.com/owner": "network"}}, "namespaces": ["prod"],
            "serviceMonitor": {"enabled": true}, "alerts": {"enabled": true}, "dashboard": {"enabled": true}}),
            ),
        ),
        (
            "a custom user",
            with(
                json!({"podSecurityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
            "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}}),
            ),
        ),
        (
            "slow probes",
            with(
                json!({"livenessProbe": {"initialDelaySeconds": 5, "periodSeconds": 20, "failureThreshold": 6},
            "readinessProbe": {"timeoutSeconds": 1, "successThreshold": 2}}),
            ),
        ),
        (
            "another life cycle",
            with(
                json!({"updateStrategy": {"type": "Recreate"}, "terminationGracePeriodSeconds": 60, "graceSeconds": 50,
            "revisionHistoryLimit": 3}),
            ),
        ),
        (
            "a fast update",
            with(
                json!({"updateStrategy": {"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 1}}}),
            ),
        ),
        (
            "another environment",
            with(
                json!({"extraEnv": [{"name": "GLOBAL_DNS_SERVER_ID", "value": "from the environment"},
                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.54"], "searches": ["example.com"],
                "options": [{"name": "ndots", "value": "1"}]}}),
            ),
        ),
        (
            "the node's network",
            with(json!({"hostNetwork": true, "listen": ["0.0.0.0:1053"], "replicas": 3})),
        ),
        (
            "a DaemonSet on the node's network",
            with(json!({"hostNetwork": true, "kind": "DaemonSet"})),
        ),
        (
            "spread by rack",
            with(json!({"topologySpreadConstraints": [
                {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                    "minDomains": 2, "matchLabelKeys": ["pod-template-hash"]},
                {"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"example.com/team": "dns"}}}]})),
        ),
        (
            "a single replica",
            with(
                json!({"replicas": 1, "scrapeAnnotations": false, "topologySpread": {"nodes": "", "zones": ""}}),
            ),
        ),
        (
            "strict spreading",
            with(
                json!({"replicas": 3, "priorityClassName": "system-cluster-critical",
            "topologySpread": {"nodes": "DoNotSchedule", "zones": "DoNotSchedule"},
            "podDisruptionBudget": {"maxUnavailable": "34%"},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
                "preference": {"matchExpressions": [{"key": "dns", "operator": "Exists"}]}}]}}}),
            ),
        ),
        (
            "some namespaces",
            with(json!({"namespaces": ["prod", "shop"]})),
        ),
        (
            "Links in a watched namespace",
            with(json!({"namespaces": ["prod", "links"], "links": {"namespace": "links"}})),
        ),
        (
            "Links in several namespaces",
            with(json!({"links": {"namespace": ["multicluster", "links"], "unlinkedAfter": "1h"}})),
        ),
        (
            "no Links",
            with(json!({"kind": "DaemonSet", "links": {"enabled": false}})),
        ),
        (
            "an existing service account",
            with(json!({"rbac": {"create": false},
            "serviceAccount": {"create": false, "name": "dns"}})),
        ),
        (
            "monitoring",
            with(
                json!({"serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
            "alerts": {"enabled": true, "labels": {"release": "prometheus"}, "ignoredConflicts": ["kind", "not-exported"]},
            "dashboard": {"enabled": true, "annotations": {"grafana_folder": "DNS"}}}),
            ),
        ),
        (
            "DNS over TLS",
            with(
                json!({"encrypted": {"secretName": "global-dns-tls", "tlsListen": ["[::]:5853"]},
            "alerts": {"enabled": true}}),
            ),
        ),
        (
            "DNS over QUIC",
            with(
                json!({"encrypted": {"secretName": "global-dns-tls", "quicListen": ["0.0.0.0:5853"]},
            "alerts": {"enabled": true}}),
            ),
        ),
        (
            "client certificates, and ports of both families",
            with(
                json!({"encrypted": {"secretName": "global-dns-tls", "clientCASecretName": "global-dns-tls",
            "tlsListen": ["0.0.0.0:5853", "[::]:5854"]},
            "listen": ["0.0.0.0:1053", "[::]:1054"], "adminListen": ["0.0.0.0:8080", "[::]:8081"]}),
            ),
        ),
        (
            "a load balancer for every listener",
            with(
                json!({"service": {"type": "LoadBalancer"}, "encrypted": {"secretName": "global-dns-tls",
            "tlsListen": ["0.0.0.0:5853"], "quicListen": ["0.0.0.0:5853"]}}),
            ),
        ),
        ("every flag", Value::Object(every_flag())),
        (
            "a strict network policy",
            with(
                json!({"networkPolicy": {"dnsFrom": [selector], "metricsFrom": [{"namespaceSelector": {}}],
            "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}], "ports": [{"port": 6443}]}]}}),
            ),
        ),
        ("no egress", with(json!({"networkPolicy": {"egress": []}}))),
        (
            "no network policy, no budget",
            with(json!({"networkPolicy": {"enabled": false},
            "podDisruptionBudget": {"enabled": false}})),
        ),
        (
            "objects from files",
            and(
                with(json!({"source": {"files": ["/objects/one.yaml", "/objects/two.yaml"]}})),
                volume("objects"),
            ),
        ),
        (
            "another API server",
            and(
                with(json!({"source": {"kubeconfig": "/objects/kubeconfig", "context": "other"}})),
                volume("kubeconfig"),
            ),
        ),
        (
            "other names",
            with(
                json!({"nameOverride": "names", "podLabels": {"team": "dns", "app.kubernetes.io/name": "not-this"},
            "podAnnotations": {"example.com/note": "hello", "linkerd.io/inject": "enabled"}}),
            ),
        ),
        (
            "the longest name",
            with(json!({"fullnameOverride": "a".repeat(63), "dashboard": {"enabled": true}})),
        ),
        (
            "an image by digest",
            with(
                json!({"image": {"repository": "registry.example.com/dns/global-dns",
            "digest": format!("sha256:{}", "0".repeat(64)), "pullPolicy": "Always"}, "imagePullSecrets": [{"name": "registry"}]}),
            ),
        ),
        (
            "YAML booleans as values",
            with(
                json!({"shortNames": {"which": false}, "localMembers": false,
            "extraArgs": ["--server-id=none"], "nodeSelector": {}, "resources": {}}),
            ),
        ),
    ]
}

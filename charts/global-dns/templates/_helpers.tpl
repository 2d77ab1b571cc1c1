{{/* Names and labels */}}

{{- define "global-dns.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "global-dns.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := include "global-dns.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "global-dns.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end }}

{{- define "global-dns.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "global-dns.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{/* Selector of the server's pods. The pod of `helm test` has another component, so that it gets no queries. */}}
{{- define "global-dns.selectorLabels" -}}
app.kubernetes.io/name: {{ include "global-dns.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "global-dns.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/*
Labels of an object. Takes a dict: `root`, the `labels` of this object, and `component` unless it is "server". Precedence:
the chart's own labels, because selectors need them; the labels of the object; the common labels.
*/}}
{{- define "global-dns.labels" -}}
{{- $own := dict "app.kubernetes.io/component" (default "server" .component) -}}
{{- $own = merge $own (include "global-dns.selectorLabels" .root | fromYaml) (include "global-dns.chartLabels" .root | fromYaml) -}}
{{- toYaml (merge $own (default dict .labels) .root.Values.commonLabels) -}}
{{- end }}

{{/*
Metadata of an object. Takes the same dict, with further keys: `name` (default: the full name), `namespace` (default:
the namespace of the objects; empty for a cluster-scoped object) and `annotations`.
*/}}
{{- define "global-dns.metadata" -}}
name: {{ .name | default (include "global-dns.fullname" .root) }}
{{- with ternary .namespace (include "global-dns.namespace" .root) (hasKey . "namespace") }}
namespace: {{ . }}
{{- end }}
labels: {{- include "global-dns.labels" . | nindent 2 }}
{{- with merge dict (default dict .annotations) .root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "global-dns.image" -}}
{{- required "image.repository is required: set it to the repository of your image, such as registry.example.com/dns/global-dns" .Values.image.repository -}}
{{- if .Values.image.digest -}}
@{{ .Values.image.digest }}
{{- else -}}
:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/*
Disables injection of the Linkerd proxy, for three reasons. The proxy does not carry UDP: its init container redirects
TCP only. By default (`proxy.await`), the proxy starts first and waits for its identity, so this server would wait for a
control plane that may need DNS itself. The init container needs NET_ADMIN and NET_RAW, which pod security `restricted`
refuses. The annotation is explicit, so that an annotation of the namespace does not enable injection.
*/}}
{{- define "global-dns.mesh" -}}
linkerd.io/inject: disabled
{{- end }}

{{/* Annotations of the pods. Precedence: the mesh annotation, podAnnotations, the scrape annotations. */}}
{{- define "global-dns.podAnnotations" -}}
{{- $scrape := dict -}}
{{- if and .Values.scrapeAnnotations (not .Values.serviceMonitor.enabled) -}}
{{- $port := include "global-dns.adminPort" . -}}
{{- $scrape = dict "prometheus.io/scrape" "true" "prometheus.io/port" $port "prometheus.io/path" "/metrics" -}}
{{- end -}}
{{- toYaml (merge (include "global-dns.mesh" . | fromYaml) .Values.podAnnotations $scrape) -}}
{{- end }}

{{/* Whether the Service is reachable from outside the cluster. */}}
{{- define "global-dns.isReachableFromOutside" -}}
{{- if or (ne .Values.service.type "ClusterIP") .Values.service.externalIPs }}true{{ end -}}
{{- end }}

{{- define "global-dns.tolerations" -}}
{{- if not (kindIs "invalid" .Values.tolerations) -}}
{{ toYaml .Values.tolerations }}
{{- else if eq .Values.kind "DaemonSet" -}}
- {key: node-role.kubernetes.io/control-plane, operator: Exists}
- {key: CriticalAddonsOnly, operator: Exists}
{{- end -}}
{{- end }}

{{- define "global-dns.terminationGracePeriod" -}}
{{- $grace := int64 .Values.graceSeconds -}}
{{- $given := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{ add $grace 15 }}
{{- else if lt (int64 $given) (add $grace 10) -}}
{{ fail (printf "terminationGracePeriodSeconds is %d; with graceSeconds %d it must be at least %d" (int64 $given) $grace (add $grace 10)) }}
{{- else -}}
{{ int64 $given }}
{{- end -}}
{{- end }}

{{/* Whether the server watches the API server of this cluster. */}}
{{- define "global-dns.watchesThisCluster" -}}
{{- if not (or .Values.source.files .Values.source.kubeconfig) }}true{{ end -}}
{{- end }}

{{/* Distinct ports of `addresses`, as a JSON list. Without addresses: the default port of the server. */}}
{{- define "global-dns.ports" -}}
{{- $ports := list -}}
{{- range .addresses -}}
{{- $ports = append $ports (regexFind "[0-9]+$" . | int) -}}
{{- end -}}
{{ $ports | default (list .default) | uniq | toJson }}
{{- end }}

{{/* Target port of the Service: the port of the first address. */}}
{{- define "global-dns.port" -}}
{{ include "global-dns.ports" . | fromJsonArray | first }}
{{- end }}

{{- define "global-dns.dnsPort" -}}
{{ include "global-dns.port" (dict "addresses" .Values.listen "default" 5353) }}
{{- end }}

{{- define "global-dns.adminPort" -}}
{{ include "global-dns.port" (dict "addresses" .Values.adminListen "default" 9153) }}
{{- end }}

{{/* Port of the API on loopback, which a port-forward reaches. Empty: the API does not listen there. */}}
{{- define "global-dns.apiPort" -}}
{{- $ports := list -}}
{{- range .Values.apiListen -}}
{{- if regexMatch "^(127\\.[0-9.]+|localhost|\\[::1\\]|0\\.0\\.0\\.0|\\[::\\]|):[0-9]+$" . -}}
{{- $ports = append $ports (regexFind "[0-9]+$" .) -}}
{{- end -}}
{{- end -}}
{{- with $ports }}{{ first . }}{{ end -}}
{{- end }}

{{/* Enabled encrypted listeners, as a YAML list: name and number of the Service port, protocol, addresses. */}}
{{- define "global-dns.encryptedListeners" -}}
{{- $tls := dict "name" "dns-tls" "port" 853 "protocol" "TCP" "addresses" .Values.encrypted.tlsListen -}}
{{- $quic := dict "name" "dns-quic" "port" 853 "protocol" "UDP" "addresses" .Values.encrypted.quicListen -}}
{{- range list $tls $quic -}}
{{- if .addresses }}
- {{ toJson . }}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
Whether an upgrade changes a list of ports in which one number has two protocols. Helm 3 sends a strategic merge patch
with the number as the only key, so one of the two ports is lost. With --force, Helm replaces the objects.
*/}}
{{- define "global-dns.needsForce" -}}
{{- $name := include "global-dns.fullname" . -}}
{{- with lookup "v1" "Service" (include "global-dns.namespace" .) $name -}}
{{- $before := list -}}
{{- range .spec.ports -}}
{{- if eq (int .port) 853 -}}{{- $before = append $before .protocol -}}{{- end -}}
{{- end -}}
{{- $after := list -}}
{{- range include "global-dns.encryptedListeners" $ | fromYamlArray -}}
{{- if eq (int .port) 853 -}}{{- $after = append $after .protocol -}}{{- end -}}
{{- end -}}
{{- $isChanged := ne (sortAlpha $before | join " ") (sortAlpha $after | join " ") -}}
{{- if and $isChanged $after (or (gt (len $before) 1) (gt (len $after) 1)) -}}true{{- end -}}
{{- end -}}
{{- with lookup "apps/v1" .Values.kind (include "global-dns.namespace" .) $name -}}
{{- range (first .spec.template.spec.containers).ports -}}
{{- if and (eq .name "dns") (ne (toString .containerPort) (include "global-dns.dnsPort" $)) -}}true{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Environment variable with the cluster IP of the Service. Kubernetes sets it in pods with enableServiceLinks. */}}
{{- define "global-dns.serviceVariable" -}}
{{ include "global-dns.fullname" . | upper | replace "-" "_" }}_SERVICE_HOST
{{- end }}

{{/* Whether the pods read the cluster IP of the Service from that variable. */}}
{{- define "global-dns.needsServiceVariable" -}}
{{- if not (or .Values.nsAddresses .Values.service.clusterIP) }}true{{ end -}}
{{- end }}

{{/* Namespaces of Linkerd's Links and mirror controllers, as a JSON list. Empty if the server does not read them. */}}
{{- define "global-dns.linksNamespaces" -}}
{{- $namespaces := list -}}
{{- if .Values.links.enabled -}}
{{- $given := required "links.namespace is required with links.enabled: set it to the namespace of Linkerd's Links" .Values.links.namespace -}}
{{- $namespaces = kindIs "string" $given | ternary (list $given) $given -}}
{{- end -}}
{{ toJson $namespaces }}
{{- end }}

{{/* Flags that `serve` and `check` share: the source of objects, and the rules for names and members. */}}
{{- define "global-dns.modelArgs" -}}
{{- $v := .Values -}}
- --cluster-name={{ required "clusterName is required: set it to the name that the links of the other clusters use for this cluster" $v.clusterName }}
{{- range $v.source.files }}
- {{ printf "--file=%s" . | quote }}
{{- end }}
{{- with $v.source.kubeconfig }}
- {{ printf "--kubeconfig=%s" . | quote }}
{{- end }}
{{- with $v.source.context }}
- {{ printf "--context=%s" . | quote }}
{{- end }}
{{- range $v.namespaces }}
- --namespace={{ . }}
{{- end }}
{{- range $v.zones }}
- --zone={{ . }}
{{- end }}
{{- range $link, $name := $v.clusterAliases }}
- --cluster-alias={{ $link }}={{ $name }}
{{- end }}
{{- range $name, $services := $v.aliases }}
- --alias={{ $name }}={{ join "+" $services }}
{{- end }}
{{- range $v.excludeClusters }}
- --exclude-cluster={{ . }}
{{- end }}
- --ttl={{ int64 $v.ttl }}
- --ttl-max={{ int64 $v.ttlMax }}
- --negative-ttl={{ int64 $v.negativeTtl }}
{{- /* YAML parses unquoted on and off as true and false. */}}
- --short-names={{ $v.shortNames.which | toString | replace "true" "on" | replace "false" "off" }}
{{- with $v.shortNames.defaultNamespace }}
- --default-namespace={{ . }}
{{- end }}
{{- range $service, $namespace := $v.shortNames.pinned }}
- --short-name={{ $service }}={{ $namespace }}
{{- end }}
- --gateway-down={{ $v.gatewayDown }}
- --local-members={{ $v.localMembers | toString | replace "false" "off" }}
{{- with $v.failover.default }}
- --failover={{ . }}
{{- end }}
{{- range $service, $order := $v.failover.services }}
- --failover={{ $service }}={{ $order }}
{{- end }}
- --links={{ ternary "on" "off" $v.links.enabled }}
{{- with include "global-dns.linksNamespaces" . | fromJsonArray }}
- --links-namespace={{ join "," . }}
- --unlinked-after={{ $v.links.unlinkedAfter }}
{{- end }}
{{- end }}

{{/* Flags of `serve` only. */}}
{{- define "global-dns.serveArgs" -}}
{{- $v := .Values -}}
- --order={{ $v.order }}
{{- if include "global-dns.needsServiceVariable" . }}
- --ns-address=$({{ include "global-dns.serviceVariable" . }})
{{- else }}
{{- range $v.nsAddresses | default (list $v.service.clusterIP) }}
- {{ printf "--ns-address=%s" . | quote }}
{{- end }}
{{- end }}
- --udp-max={{ int64 $v.udpMax }}
{{- with $v.udpWorkers }}
- --udp-workers={{ int64 . }}
{{- end }}
- --tcp-connections={{ int64 $v.tcpConnections }}
- --tcp-connections-per-address={{ int64 $v.tcpConnectionsPerAddress }}
{{- range $v.allow }}
- {{ printf "--allow=%s" . | quote }}
{{- end }}
{{- with $v.serverId }}
- {{ printf "--server-id=%s" . | quote }}
{{- end }}
{{- range $v.listen }}
- {{ printf "--listen=%s" . | quote }}
{{- end }}
{{- range $v.adminListen }}
- {{ printf "--admin-listen=%s" . | quote }}
{{- end }}
{{- range $v.apiListen }}
- {{ printf "--api-listen=%s" . | quote }}
{{- end }}
{{- range $v.apiHosts }}
- {{ printf "--api-host=%s" . | quote }}
{{- end }}
{{- with $v.encrypted }}
{{- range .tlsListen }}
- {{ printf "--tls-listen=%s" . | quote }}
{{- end }}
{{- range .quicListen }}
- {{ printf "--quic-listen=%s" . | quote }}
{{- end }}
{{- if include "global-dns.tlsSecret" $ }}
- --tls-cert=/etc/global-dns/tls/tls.crt
- --tls-key=/etc/global-dns/tls/tls.key
{{- end }}
{{- if include "global-dns.clientCASecret" $ }}
- --tls-client-ca=/etc/global-dns/client-ca/ca.crt
{{- end }}
{{- end }}
- --failover-delay={{ $v.failover.delay }}
- --failback-delay={{ $v.failover.failbackDelay }}
- --history={{ $v.history.age }}
- --history-memory={{ $v.history.memory }}
- --grace={{ int64 $v.graceSeconds }}s
- {{ printf "--log-level=%s" $v.log.level | quote }}
- --log-format={{ $v.log.format }}
{{- range $v.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* Secret with the certificate of the encrypted listeners. */}}
{{- define "global-dns.tlsSecret" -}}
{{- if include "global-dns.encryptedListeners" . -}}
{{ required "encrypted.secretName is required with encrypted.tlsListen or encrypted.quicListen: set it to a Secret of type kubernetes.io/tls" .Values.encrypted.secretName }}
{{- end -}}
{{- end }}

{{/* Secret with the CAs of client certificates. Without a listener it has no effect, so that is an error. */}}
{{- define "global-dns.clientCASecret" -}}
{{- with .Values.encrypted.clientCASecretName -}}
{{- if include "global-dns.encryptedListeners" $ -}}
{{ . }}
{{- else -}}
{{ fail "encrypted.clientCASecretName needs a listener: set encrypted.tlsListen or encrypted.quicListen" }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* === Values that are valid by themselves, but not together === */}}

{{/* Fails if `serve` would refuse the values. The schema checks each value by itself. */}}
{{- define "global-dns.checkValues" -}}
{{- range $removed, $new := dict "prometheusRule" "alerts" -}}
{{- if hasKey $.Values $removed -}}
{{- fail (printf "%s is now %s: rename it in your values. With helm upgrade, use --reset-then-reuse-values instead of --reuse-values" $removed $new) -}}
{{- end -}}
{{- end -}}
{{- /* With --reuse-values, the values are those of the earlier chart, without defaults of this one. */}}
{{- range list "aliases" "links" "history" "alerts" -}}
{{- if or (not (hasKey $.Values .)) (kindIs "invalid" (index $.Values .)) -}}
{{- fail (printf "the value %s is missing: with helm upgrade, use --reset-then-reuse-values instead of --reuse-values" .) -}}
{{- end -}}
{{- end -}}
{{- include "global-dns.checkZones" . -}}
{{- include "global-dns.checkAliases" . -}}
{{- with .Values.failover.default -}}
{{- include "global-dns.checkOrder" (dict "value" "failover.default" "order" .) -}}
{{- end -}}
{{- range $service, $order := .Values.failover.services -}}
{{- include "global-dns.checkOrder" (dict "value" (printf "failover.services.%s" $service) "order" $order) -}}
{{- end -}}
{{- with .Values.source -}}
{{- if and .files (or .kubeconfig .context) -}}
{{- fail "source.files cannot be combined with source.kubeconfig or source.context: the objects are read from the files or from an API server" -}}
{{- end -}}
{{- end -}}
{{- range $name := list "serverId" -}}
{{- $length := get $.Values $name | len -}}
{{- if gt $length 128 -}}
{{- fail (printf "%s has %d octets; at most 128 are allowed" $name $length) -}}
{{- end -}}
{{- end -}}
{{- include "global-dns.checkListeners" . -}}
{{- end }}

{{- define "global-dns.checkZones" -}}
{{- $zones := list -}}
{{- range .Values.zones -}}
{{- $zones = append $zones (trimSuffix "=mcs" . | trimSuffix "." | lower) -}}
{{- end -}}
{{- $seen := dict -}}
{{- range $zones -}}
{{- if hasKey $seen . -}}
{{- fail (printf "zones has %s twice: give each zone once" .) -}}
{{- end -}}
{{- $_ := set $seen . true -}}
{{- /* A name in wire format has one octet more at each end. */}}
{{- if gt (len .) 126 -}}
{{- fail (printf "the zone %s has %d octets; at most 126 are allowed" . (len .)) -}}
{{- end -}}
{{- end -}}
{{- range $zone := $zones -}}
{{- range $prefix := list "dns." "ns.dns." -}}
{{- if and (hasPrefix $prefix $zone) (hasKey $seen (trimPrefix $prefix $zone)) -}}
{{- fail (printf "the zone %s holds the name of the server of zone %s: choose another zone" $zone (trimPrefix $prefix $zone)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "global-dns.checkAliases" -}}
{{- $aliases := .Values.aliases -}}
{{- range $alias, $services := $aliases -}}
{{- range $services -}}
{{- if hasKey $aliases . -}}
{{- $reason := eq . $alias | ternary "its own members always belong to it" "that is an alias, too: name its services instead" -}}
{{- fail (printf "aliases: %s is an alias of %s; %s" $alias . $reason) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Fails if an order has a cluster or `*` twice. Takes a dict: `value` (the name of the value) and `order`. */}}
{{- define "global-dns.checkOrder" -}}
{{- $seen := dict -}}
{{- range splitList ":" .order -}}
{{- range splitList "+" . -}}
{{- if hasKey $seen . -}}
{{- fail (printf "%s is %s, in which %s occurs twice" $.value $.order .) -}}
{{- end -}}
{{- $_ := set $seen . true -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* All listeners with their addresses, as a YAML list: value, protocols, addresses. */}}
{{- define "global-dns.listeners" -}}
{{- $v := .Values -}}
- {{ dict "value" "listen" "protocols" (list "UDP" "TCP") "addresses" ($v.listen | default (list ":5353")) | toJson }}
- {{ dict "value" "adminListen" "protocols" (list "TCP") "addresses" ($v.adminListen | default (list ":9153")) | toJson }}
- {{ dict "value" "apiListen" "protocols" (list "TCP") "addresses" $v.apiListen | toJson }}
- {{ dict "value" "encrypted.tlsListen" "protocols" (list "TCP") "addresses" $v.encrypted.tlsListen | toJson }}
- {{ dict "value" "encrypted.quicListen" "protocols" (list "UDP") "addresses" $v.encrypted.quicListen | toJson }}
{{- end }}

{{/*
Fails if two listeners have the same address and port, or if a port of the node needs rights that the container lacks. A
process without root rights gets no capability from the container runtime, so that only the user 0 can use it.
*/}}
{{- define "global-dns.checkListeners" -}}
{{- $taken := dict -}}
{{- $low := list -}}
{{- range $listener := include "global-dns.listeners" . | fromYamlArray -}}
{{- range $address := .addresses -}}
{{- $port := regexFind "[0-9]+$" $address -}}
{{- if lt (int $port) 1024 -}}{{- $low = append $low (printf "%s %s" $listener.value $address) -}}{{- end -}}
{{- $host := trimSuffix (printf ":%s" $port) $address -}}
{{- $hosts := list $host -}}
{{- if regexMatch "(?i)^\\[[0:]*:ffff:[0-9a-f]{1,4}:[0-9a-f]{1,4}\\]$" $host -}}
{{- fail (printf "%s has %s: write the IPv4 address without ::ffff" $listener.value $address) -}}
{{- end -}}
{{- if not $host -}}{{- $hosts = list "0.0.0.0" "[::]" -}}{{- end -}}
{{- if eq $host "localhost" -}}{{- $hosts = list "127.0.0.1" "[::1]" -}}{{- end -}}
{{- range $protocol := $listener.protocols -}}
{{- range $hosts -}}
{{- $family := hasPrefix "[" . | ternary "6" "4" -}}
{{- $key := printf "%s %s %s" $protocol $family $port -}}
{{- $others := get $taken $key | default dict -}}
{{- $isEvery := has . (list "0.0.0.0" "[::]") -}}
{{- if or (hasKey $others .) (and $others (or $isEvery (hasKey $others "0.0.0.0") (hasKey $others "[::]"))) -}}
{{- fail (printf "%s has %s, but %s has the same port: give each listener a port of its own" $listener.value $address (values $others | first)) -}}
{{- end -}}
{{- $_ := set $others . $listener.value -}}
{{- $_ := set $taken $key $others -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.hostNetwork $low (not (include "global-dns.runsAsRoot" .)) -}}
{{- fail (printf "hostNetwork with %s: only root may open ports of the node below 1024. Choose ports from 1024, or set podSecurityContext.runAsNonRoot=false and securityContext.runAsUser=0; the container then gets the capability NET_BIND_SERVICE" (join ", " $low)) -}}
{{- end -}}
{{- end }}

{{/* Whether the container runs as user 0. */}}
{{- define "global-dns.runsAsRoot" -}}
{{- $pod := .Values.podSecurityContext | default dict -}}
{{- $container := .Values.securityContext | default dict -}}
{{- $user := hasKey $container "runAsUser" | ternary $container.runAsUser $pod.runAsUser -}}
{{- $isRefused := hasKey $container "runAsNonRoot" | ternary $container.runAsNonRoot $pod.runAsNonRoot -}}
{{- if and (not (kindIs "invalid" $user)) (eq (int64 $user) 0) (not $isRefused) -}}true{{- end -}}
{{- end }}

{{/* Security context of the server's container. On the node's network, ports below 1024 need a capability. */}}
{{- define "global-dns.securityContext" -}}
{{- $context := deepCopy (.Values.securityContext | default dict) -}}
{{- $needsCapability := false -}}
{{- range include "global-dns.listeners" . | fromYamlArray -}}
{{- range .addresses -}}
{{- if lt (regexFind "[0-9]+$" . | int) 1024 -}}{{- $needsCapability = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.hostNetwork $needsCapability -}}
{{- $capabilities := deepCopy ($context.capabilities | default dict) -}}
{{- $_ := set $capabilities "add" (append ($capabilities.add | default list) "NET_BIND_SERVICE" | uniq) -}}
{{- $_ := set $context "capabilities" $capabilities -}}
{{- end -}}
{{- with $context -}}{{- toYaml . -}}{{- end -}}
{{- end }}

{{/*
Whether there is a PodDisruptionBudget. A drain does not evict the pods of a DaemonSet. For a single replica, a budget would
block the drain. Without a number of replicas, an autoscaler chooses it.
*/}}
{{- define "global-dns.hasBudget" -}}
{{- $replicas := .Values.replicas -}}
{{- if and .Values.podDisruptionBudget.enabled (eq .Values.kind "Deployment") (or (kindIs "invalid" $replicas) (gt (int64 $replicas) 1)) -}}true{{- end -}}
{{- end }}

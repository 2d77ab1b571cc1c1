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
the namespace of the release; empty for a cluster-scoped object) and `annotations`.
*/}}
{{- define "global-dns.metadata" -}}
name: {{ .name | default (include "global-dns.fullname" .root) }}
{{- with ternary .namespace .root.Release.Namespace (hasKey . "namespace") }}
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

{{/* Whether the server keeps a snapshot. `serve` refuses the combination with files. */}}
{{- define "global-dns.hasSnapshot" -}}
{{- if and .Values.snapshot.enabled (not .Values.source.files) }}true{{ end -}}
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
{{- $https := dict "name" "dns-https" "port" 443 "protocol" "TCP" "addresses" .Values.encrypted.httpsListen -}}
{{- $quic := dict "name" "dns-quic" "port" 853 "protocol" "UDP" "addresses" .Values.encrypted.quicListen -}}
{{- range list $tls $https $quic -}}
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
{{- with lookup "v1" "Service" .Release.Namespace $name -}}
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
{{- with lookup "apps/v1" .Values.kind .Release.Namespace $name -}}
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

{{/* Whether the server reads ServiceImports. A zone with the profile mcs needs them. */}}
{{- define "global-dns.readsImports" -}}
{{- $reads := .Values.mcs.enabled -}}
{{- range .Values.zones -}}{{- if hasSuffix "=mcs" . -}}{{- $reads = true -}}{{- end -}}{{- end -}}
{{- if $reads }}true{{ end -}}
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
{{- range $v.reverseZones }}
- --reverse-zone={{ . }}
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
{{- if include "global-dns.readsImports" . }}
- --mcs
{{- end }}
{{- with $v.failover.default }}
- --failover={{ . }}
{{- end }}
{{- range $service, $order := $v.failover.services }}
- --failover={{ $service }}={{ $order }}
{{- end }}
{{- with $v.failover.defaultMode }}
- --failover-mode={{ . }}
{{- end }}
{{- range $service, $mode := $v.failover.modes }}
- --failover-mode={{ $service }}={{ $mode }}
{{- end }}
{{- range $service, $clusters := $v.expectedClusters }}
- --expected-clusters={{ $service }}={{ join "+" $clusters }}
{{- end }}
- --links={{ ternary "on" "off" $v.links.enabled }}
{{- with include "global-dns.linksNamespaces" . | fromJsonArray }}
- --links-namespace={{ join "," . }}
- --unlinked-after={{ $v.links.unlinkedAfter }}
- --unlinked={{ $v.links.unlinked }}
{{- end }}
- --bootstrap-window={{ $v.bootstrapWindow }}
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
{{- range $v.trusted }}
- {{ printf "--trusted=%s" . | quote }}
{{- end }}
- --rate-limit={{ int64 $v.rateLimit }}
{{- with $v.cookies }}
{{- if .secretName }}
- {{ printf "--cookie-secret-file=/etc/global-dns/cookies/%s" .secretKey | quote }}
{{- end }}
{{- end }}
{{- with $v.serverId }}
- {{ printf "--server-id=%s" . | quote }}
{{- end }}
{{- with $v.versionBind }}
- {{ printf "--version-bind=%s" . | quote }}
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
{{- range .httpsListen }}
- {{ printf "--https-listen=%s" . | quote }}
{{- end }}
{{- range .quicListen }}
- {{ printf "--quic-listen=%s" . | quote }}
{{- end }}
{{- if include "global-dns.tlsSecret" $ }}
- --tls-cert=/etc/global-dns/tls/tls.crt
- --tls-key=/etc/global-dns/tls/tls.key
- {{ printf "--https-path=%s" .httpsPath | quote }}
{{- end }}
{{- if include "global-dns.clientCASecret" $ }}
- --tls-client-ca=/etc/global-dns/client-ca/ca.crt
{{- end }}
{{- end }}
- --relist={{ $v.relist }}
- --watch-timeout={{ $v.watchTimeout }}
- --failover-delay={{ $v.failover.delay }}
- --failback-delay={{ $v.failover.failbackDelay }}
{{- if include "global-dns.hasSnapshot" . }}
- --snapshot=/var/lib/global-dns/snapshot.json
- --snapshot-max-age={{ $v.snapshot.maxAge }}
- --journal-max={{ $v.journal.max }}
{{- end }}
{{- with $v.maxStale }}
- --max-stale={{ . }}
{{- end }}
- --history={{ $v.history.age }}
- --history-memory={{ $v.history.memory }}
- --shrink-guard={{ $v.shrinkGuard | toString | replace "false" "off" }}
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
{{ required "encrypted.secretName is required with encrypted.tlsListen, encrypted.httpsListen or encrypted.quicListen: set it to a Secret of type kubernetes.io/tls" .Values.encrypted.secretName }}
{{- end -}}
{{- end }}

{{/* Secret with the CAs of client certificates. Without a listener it has no effect, so that is an error. */}}
{{- define "global-dns.clientCASecret" -}}
{{- with .Values.encrypted.clientCASecretName -}}
{{- if include "global-dns.encryptedListeners" $ -}}
{{ . }}
{{- else -}}
{{ fail "encrypted.clientCASecretName needs a listener: set encrypted.tlsListen, encrypted.httpsListen or encrypted.quicListen" }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Name of most objects. */}}
{{- define "global-dns.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "global-dns.serviceAccountName" -}}
{{- $default := .Values.serviceAccount.create | ternary (include "global-dns.fullname" .) "default" -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end }}

{{/* Selector of the server's pods. The pod of `helm test` has another component, so that it gets no queries. */}}
{{- define "global-dns.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{/*
Labels of an object. Takes a dict: `root`, the `labels` of this object, and `component` unless it is "server". Precedence:
the chart's own labels, because selectors need them; the labels of the object; the common labels.
*/}}
{{- define "global-dns.labels" -}}
{{- $own := dict "app.kubernetes.io/component" (default "server" .component) -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $selector := include "global-dns.selectorLabels" .root | fromYaml -}}
{{- toYaml (merge $own $selector (default dict .labels) .root.Values.commonLabels) -}}
{{- end }}

{{/*
Metadata of an object. Takes the same dict, with further keys: `name` (default: the full name), `namespace` (default: that
of the release; empty for an object of the cluster) and `annotations`.
*/}}
{{- define "global-dns.metadata" -}}
name: {{ .name | default (include "global-dns.fullname" .root) }}
{{- with ternary .namespace .root.Release.Namespace (hasKey . "namespace") }}
namespace: {{ . | quote }}
{{- end }}
labels: {{- include "global-dns.labels" . | nindent 2 }}
{{- with merge dict (default dict .annotations) .root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "global-dns.image" -}}
{{- $sentence := "image.repository is required: set it to the repository of your image, such as registry.example.com/dns/global-dns" -}}
{{- required $sentence .Values.image.repository -}}
{{- if .Values.image.digest -}}
@{{ .Values.image.digest }}
{{- else -}}
:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/*
The settings of the server as JSON: config, and the listeners of the chart. Each $ is doubled, because Kubernetes replaces
$(NAME) in variables, and $$ by $.
*/}}
{{- define "global-dns.settings" -}}
{{- $settings := deepCopy .Values.config -}}
{{- $listen := dict -}}
{{- with .Values.tls.secretName -}}
{{- $files := dict "certificate" "/etc/global-dns/tls/tls.crt" "key" "/etc/global-dns/tls/tls.key" -}}
{{- if $.Values.tls.clientCASecretName -}}
{{- $_ := set $files "clientCa" "/etc/global-dns/client-ca/ca.crt" -}}
{{- end -}}
{{- $_ := set $settings "tls" $files -}}
{{- $_ := set $listen "tls" (list ":5853") -}}
{{- end -}}
{{- if .Values.quic.enabled -}}
{{- $_ := set $listen "quic" (list ":5853") -}}
{{- end -}}
{{- with .Values.api.hosts -}}
{{- $_ := set $listen "api" (list ":9154") -}}
{{- $_ := set $listen "apiHosts" . -}}
{{- end -}}
{{- with $listen -}}
{{- $_ := set $settings "listen" . -}}
{{- end -}}
{{- toJson $settings | replace "$" "$$" -}}
{{- end }}

{{/* Flags that `serve` and `check` share, as a list: the source of objects. */}}
{{- define "global-dns.sourceFlags" -}}
{{- range .Values.source.files }}
- {{ printf "--file=%s" . | quote }}
{{- end }}
{{- range $flag := list "kubeconfig" "context" }}
{{- with get $.Values.source $flag }}
- {{ printf "--%s=%s" $flag . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether the server watches the API server of this cluster. */}}
{{- define "global-dns.watchesThisCluster" -}}
{{- empty (include "global-dns.sourceFlags" .) -}}
{{- end }}

{{/* Namespaces of the Links that the server reads, as a list. */}}
{{- define "global-dns.linksNamespaces" -}}
{{- $settings := .Values.config.links | default dict -}}
{{- if ne (toString $settings.enabled) "false" -}}
{{- kindIs "invalid" $settings.namespaces | ternary (list "linkerd-multicluster") $settings.namespaces | toYaml -}}
{{- end -}}
{{- end }}

{{/* Reference to the cluster IP of the Service. Kubernetes sets the variable in pods with enableServiceLinks. */}}
{{- define "global-dns.serviceAddress" -}}
$({{ include "global-dns.fullname" . | upper | replace "-" "_" }}_SERVICE_HOST)
{{- end }}

{{/*
The affinity of the pods: that of the values, and for a Deployment with topologySpread.zones ScheduleAnyway a preference for zones
without such a pod. Kubernetes has matchLabelKeys in affinities since 1.31.
*/}}
{{- define "global-dns.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- if and (eq .Values.kind "Deployment") (eq (.Values.topologySpread.zones | default "") "ScheduleAnyway") -}}
{{- $pods := dict "matchLabels" (include "global-dns.selectorLabels" . | fromYaml) -}}
{{- $term := dict "topologyKey" "topology.kubernetes.io/zone" "labelSelector" $pods -}}
{{- if semverCompare ">=1.31.0-0" .Capabilities.KubeVersion.Version -}}
{{- $_ := set $term "matchLabelKeys" (list "pod-template-hash") -}}
{{- end -}}
{{- $key := "preferredDuringSchedulingIgnoredDuringExecution" -}}
{{- $anti := $affinity.podAntiAffinity | default dict -}}
{{- $_ := set $anti $key (append (get $anti $key | default list) (dict "weight" 50 "podAffinityTerm" $term)) -}}
{{- $_ := set $affinity "podAntiAffinity" $anti -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end }}

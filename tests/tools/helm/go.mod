module global-dns/tests/tools/helm

go 1.24.0

require helm.sh/helm/v3 v3.19.0

// As Helm requires it. Helm assumes this version of Kubernetes.
require k8s.io/client-go v0.34.0

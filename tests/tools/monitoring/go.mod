module github.com/global-dns/global-dns/tests/tools/monitoring

go 1.24.0

// For its custom resource definitions alone: nothing of it is built.
require github.com/prometheus-operator/prometheus-operator v0.85.0

module global-dns/tests/tools/monitoring

go 1.24.0

// Only its CRDs are used; none of its code is built.
require github.com/prometheus-operator/prometheus-operator v0.85.0

module global-dns/tests/tools/mcs

go 1.24.0

// Only its CRDs are used; none of its code is built.
require sigs.k8s.io/mcs-api v0.5.0

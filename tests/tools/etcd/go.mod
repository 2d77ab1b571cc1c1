module global-dns/tests/tools/etcd

go 1.23.0

// Supports progress notifications on request, without which the API server does not serve lists from its cache. Debian's etcd is
// older.
require go.etcd.io/etcd/server/v3 v3.5.21

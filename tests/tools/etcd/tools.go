//go:build tools

// Package tools pins the etcd of the end-to-end tests' API server. It supports progress notifications on request,
// without which the API server does not serve lists from its cache. Debian's etcd is older.
package tools

import _ "go.etcd.io/etcd/server/v3"

//go:build tools

// Package tools pins the etcd behind the API server of the end-to-end tests: one that tells how far it is, without which
// an API server answers no list from memory. Debian's is older.
package tools

import _ "go.etcd.io/etcd/server/v3"

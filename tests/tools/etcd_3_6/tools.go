//go:build tools

// Package tools pins the etcd that the layer `clients` proves. The API server of the tests has an older one.
package tools

import _ "go.etcd.io/etcd/server/v3"

//go:build tools

// Package tools pins the CoreDNS that the end-to-end tests run.
package tools

import _ "github.com/coredns/coredns"

//go:build tools

// Package tools pins Thanos, a client of the layer clients.
package tools

import _ "github.com/thanos-io/thanos/cmd/thanos"

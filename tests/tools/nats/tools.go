//go:build tools

// Package tools pins the NATS server that the database tests run.
package tools

import _ "github.com/nats-io/nats-server/v2"

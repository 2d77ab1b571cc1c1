//go:build tools

// Package tools pins the NATS server of the database tests.
package tools

import _ "github.com/nats-io/nats-server/v2"

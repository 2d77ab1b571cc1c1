//go:build tools

// Package tools pins the krew version of the test of the release.
package tools

import _ "sigs.k8s.io/krew/cmd/krew"

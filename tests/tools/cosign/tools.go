//go:build tools

// Package tools pins the Cosign version of the release.
package tools

import _ "github.com/sigstore/cosign/v2/cmd/cosign"

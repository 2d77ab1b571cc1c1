//go:build tools

// Package tools pins the registry of the test of the release.
package tools

import _ "github.com/google/go-containerregistry/cmd/registry"

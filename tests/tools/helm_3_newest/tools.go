//go:build tools

// Package tools pins the Helm version of the chart tests.
package tools

import _ "helm.sh/helm/v3/cmd/helm"

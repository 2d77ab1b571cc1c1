//go:build tools

// Package tools pins the Helm that the tests of the chart run.
package tools

import _ "helm.sh/helm/v3/cmd/helm"

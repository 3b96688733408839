//go:build e2e

// Package kubernetes records the packages that are built but are no program: `go mod tidy` keeps what they need.
package kubernetes

import _ "k8s.io/kubernetes/test/e2e"

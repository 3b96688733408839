module atoll.dev/upstream/bundles

go 1.26.0

// Nothing is built from these: tests read the definitions that their files hold.
require (
	github.com/argoproj/argo-workflows/v3 v3.7.3
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/cluster-api v1.13.6
	sigs.k8s.io/gateway-api v1.5.1
)

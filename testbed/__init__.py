"""A real Kubernetes on this machine, for `make test-kube`: its programs, its nodes, and what is tried there."""

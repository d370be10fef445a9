"""What gpuyard asks an API server for, and how replicas elect a leader."""

"""Tasks that share GPUs on Kubernetes: the scheduler's extender, the device plugin, and what installs them."""

"""What a kubelet is told of GPUs, and what containers are given to find theirs."""

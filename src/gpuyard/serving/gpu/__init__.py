"""What runs in the process of one GPU: the executors of its slices."""

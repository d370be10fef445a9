"""The kinds of objects that gpuyard adds to a cluster, as values and as definitions."""

"""Workloads as TrainingJobs of a cluster, from the side of whoever asks for them."""

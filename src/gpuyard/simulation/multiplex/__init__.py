"""The simulated cluster in which tasks share GPUs: plain Python, for some hundred tasks."""

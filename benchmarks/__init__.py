"""Speed and scale, each as a ratio against a baseline in the same run. `python -m benchmarks` runs them all."""

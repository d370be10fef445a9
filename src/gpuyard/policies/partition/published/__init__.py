"""gpulet's planner as it was published (ATC'22), with its faults: to be compared with its own results."""

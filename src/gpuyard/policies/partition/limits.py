"""What of a GPU may be used, whoever plans it: the figures of gpulet's planner."""

CONTEXT_MB = 1230.0
"""What the framework takes of a GPU's memory for each slice that is in use, beside the models on it."""
USABLE_MEMORY = 0.9
NETWORK_GBIT = 3.0
"""Of input that a GPU takes in a second; a Gbit has 2^30 bits here."""


def network_gbit(input_bytes: int, rate: float) -> float:
    """What so many requests a second take of a GPU's network."""
    return rate * input_bytes * 8 / 2**30

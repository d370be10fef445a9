"""The training side: by this a scheduler can stop a script, move it and let it go on without losing a step.

    for batch in steps(loader, save=save, load=load):
        train(batch)

Without a scheduler `steps` returns the loader itself.
"""

from gpuyard.client.checkpoints import Checkpoints
from gpuyard.client.stepping import LeaseEnded, Steps, steps

__all__ = ["Checkpoints", "LeaseEnded", "Steps", "steps"]

"""Real jobs: processes that train, on this machine or many, under the same policies as the simulator's."""

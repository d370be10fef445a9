"""Gangs of pods by the orders and allocations of the simulator: a world whose processes are pods."""

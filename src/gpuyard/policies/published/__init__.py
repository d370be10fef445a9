"""Synergy's policies as its program runs them, faults included, to be compared with its results to the last digit."""

"""Experiments in which jobs share GPUs: Deft's JSON as it is, our YAML, and what they are made from."""

from gpuyard.traces.sharing.files import read_experiment
from gpuyard.traces.sharing.nsys import SequenceProfile, read_nsys
from gpuyard.traces.sharing.pairs import PairChoice, write_pairs

__all__ = ["PairChoice", "SequenceProfile", "read_experiment", "read_nsys", "write_pairs"]

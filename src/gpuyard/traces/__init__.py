"""What arrives and where it runs: readers of public traces and cluster files, generators, record and replay."""

from gpuyard.traces.clusters import read_cluster
from gpuyard.traces.facts import describe
from gpuyard.traces.filters import Filter
from gpuyard.traces.options import PhillyOptions, ReadOptions
from gpuyard.traces.readers import READERS
from gpuyard.traces.reading import find_reader, read_workload
from gpuyard.traces.source import Source
from gpuyard.traces.synthetic import generate, with_arrivals
from gpuyard.traces.writing import record, write

read = read_workload

__all__ = [
    "READERS",
    "Filter",
    "PhillyOptions",
    "ReadOptions",
    "Source",
    "describe",
    "find_reader",
    "generate",
    "read",
    "read_cluster",
    "read_workload",
    "record",
    "with_arrivals",
    "write",
]

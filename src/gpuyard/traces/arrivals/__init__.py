"""Requests of services over time: drawn at random, evenly spaced, after rates of a file, or after recorded traces."""

from gpuyard.traces.arrivals.choice import LOADS, make_arrivals
from gpuyard.traces.arrivals.drawn import RateFile, constant, fluctuating, poisson
from gpuyard.traces.arrivals.files import read_arrivals, write_arrivals
from gpuyard.traces.arrivals.rate_files import STEP_S, read_rates
from gpuyard.traces.arrivals.recorded import recorded
from gpuyard.traces.arrivals.request_traces import KNOWN, Stamps, read_stamps
from gpuyard.traces.arrivals.value import Arrivals, ServiceId

__all__ = [
    "KNOWN",
    "LOADS",
    "STEP_S",
    "Arrivals",
    "RateFile",
    "ServiceId",
    "Stamps",
    "constant",
    "fluctuating",
    "make_arrivals",
    "poisson",
    "read_arrivals",
    "read_rates",
    "read_stamps",
    "recorded",
    "write_arrivals",
]

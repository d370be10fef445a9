"""What ten million requests cost, over drawing as many random gaps."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.limits import Figure
from benchmarks.measure import best_in_turn
from gpuyard.traces.arrivals import RateFile, constant, fluctuating, poisson, recorded, write_arrivals

RATES: dict[str | int, float] = {f"service{number}": 1e5 * (number + 1) / 5.5 for number in range(10)}
SECONDS = 10.0


def run() -> list[Figure]:
    """Every maker, ten services together."""
    changing: dict[str | int, RateFile] = {name: [rate, 2 * rate, 0.0] for name, rate in RATES.items()}
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "requests.csv"
        write_arrivals(poisson({"a": 1000.0}, 20.0), trace)
        best = best_in_turn(
            2,
            floor=lambda: np.cumsum(np.random.default_rng(1).standard_exponential(10_000_000)),
            poisson=lambda: poisson(RATES, SECONDS),
            constant=lambda: constant(RATES, SECONDS),
            fluctuating=lambda: fluctuating(changing, SECONDS, step_s=1),
            recorded=lambda: recorded(trace, RATES, SECONDS),
        )
    floor = best.pop("floor")
    found = [Figure(f"arrivals: {name}, 10 million", took, "s", most=10, portable=False) for name, took in best.items()]
    return found + [Figure(f"arrivals: {name} over random gaps", took / floor, "x") for name, took in best.items()]

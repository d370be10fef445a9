"""How the cost of a round grows with the cluster, beside the original's 1.7, 8.5 and 68 s for 601 rounds."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.limits import Figure
from benchmarks.measure import best_in_turn
from gpuyard import Options, generate, simulate

ROUNDS = 601
ROUND_S = 300.0
ORIGINAL_S = {32: 1.7, 128: 8.5, 512: 68.0}
"""CPU seconds of the original, FIFO+tune with load in proportion to the GPUs, by number of GPUs."""


def run(repeats: int = 3, sizes: tuple[int, ...] = (32, 128, 512)) -> list[Figure]:
    """Measure the same numbers of rounds on each size."""
    figures = []
    ours = {}
    for gpus in sizes:
        seconds, rounds = _run_of(gpus, repeats)
        ours[gpus] = seconds * ROUNDS / rounds
        name = f"growth: {gpus} GPUs, original's {ORIGINAL_S[gpus]:g} s over ours"
        figures.append(Figure(name, ORIGINAL_S[gpus] / ours[gpus], "x", least=50))
    small, large = sizes[0], sizes[-1]
    figures.append(Figure(f"growth: cost from {small} to {large} GPUs", ours[large] / ours[small], "x"))
    times = ORIGINAL_S[large] / ORIGINAL_S[small]
    figures.append(Figure(f"growth: the original's from {small} to {large} GPUs", times, "x"))
    return figures


def _run_of(gpus: int, repeats: int) -> tuple[float, float]:
    """CPU seconds and rounds; the run ends with a job that ends in the last round."""
    load = 9.0 * gpus / 128
    cluster = f"{gpus // 8}x8:cpus=24,memory=500GB"
    workload = generate(jobs=int(load * 60), load=load, seed=42)
    options = Options(faithful=True, timeline=False)
    finish = simulate(cluster, workload, "fifo+tune", options).jobs["finish_s"]
    last = int((finish - (ROUNDS - 1) * ROUND_S).abs().arg_min() or 0)
    short = replace(options, window=(last, last + 1))
    best = best_in_turn(repeats, ours=lambda: simulate(cluster, workload, "fifo+tune", short))
    return best["ours"], float(finish[last]) / ROUND_S + 1

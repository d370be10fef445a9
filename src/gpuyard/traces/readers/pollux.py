"""Pollux's workloads: which application, on how many replicas, with which batch; how long follows from its profiles."""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.workload import Workload
from gpuyard.traces.options import Reader, ReadOptions, columns_are
from gpuyard.traces.public import jobs_from
from gpuyard.traces.source import Source
from gpuyard.traces.table import Table, read_table

RUN_TIME_S: dict[str, dict[tuple[int, int], int]] = {
    "bert": {(1, 12): 13614, (4, 48): 3572, (6, 384): 3056, (8, 384): 2480, (12, 384): 1589, (16, 384): 1335},
    "cifar10": {
        (1, 128): 4028, (4, 512): 1165, (6, 2048): 854, (8, 1024): 1318, (8, 2048): 826, (12, 4096): 573,
        (16, 4096): 449,
    },
    "deepspeech2": {
        (1, 20): 19439, (4, 80): 6376, (6, 320): 4153, (8, 160): 6140, (8, 320): 3501, (12, 640): 2573,
    },
    "imagenet": {(8, 1600): 79621, (16, 3200): 44072, (24, 3200): 31396, (32, 6400): 26207, (48, 6400): 18880},
    "ncf": {(1, 256): 1444, (1, 32768): 33, (2, 512): 938, (4, 1024): 587, (8, 2048): 927},
    "yolov3": {
        (1, 8): 33738, (2, 16): 18869, (4, 32): 13740, (4, 64): 11083, (8, 64): 23860, (16, 128): 9592,
    },
}  # fmt: skip
"""Seconds of a full training run by application and (replicas, batch size).

Derived from the profiles of petuum/adaptdl, branch osdi21-artifact (Apache-2.0), on T4 nodes of 4 GPUs: iterations in
the last row of validation-<batch>.csv, times the step time of replicas packed on as few nodes as possible
(placements.csv, above 16 replicas scalability.csv), linear between measured local batch sizes; a local batch above the
largest measured one is done in several passes, of which only the last waits for the others.
"""


def _read(source: Source, options: ReadOptions) -> Workload:
    table = read_table(source)
    replicas = table.numbers("num_replicas")
    times, guessed = _run_times(table, replicas)
    notes = [f"{guessed} jobs of unmeasured size: the closest measured run's GPU time over their replicas"]
    columns = {
        "job_id": table.texts("name"),
        "arrival_s": table.numbers("time"),
        "gpus": replicas,
        "duration_s": times,
        "model": table.texts("application"),
    }
    return jobs_from(columns, options, source=source.name, rows=table.rows, notes=tuple(notes if guessed else ()))


def _run_times(table: Table, replicas: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return each job's run time, and how many are of a size that was not measured."""
    guessed = 0
    times = np.zeros(len(table))
    batches = table.numbers("batch_size")
    for at, name in enumerate(table.texts("application")):
        if name not in RUN_TIME_S:
            raise InputError(
                "is not an application of Pollux", file=table.source, row=int(table.rows[at]), field="application",
                value=name, hint=nearest(name, RUN_TIME_S),
            )  # fmt: skip
        size = (int(replicas[at]), int(batches[at]))
        known = RUN_TIME_S[name]
        closest = size if size in known else _closest(size, list(known))
        guessed += closest != size
        times[at] = known[closest] * closest[0] / max(size[0], 1)
    return times, guessed


def _closest(size: tuple[int, int], known: list[tuple[int, int]]) -> tuple[int, int]:
    def distance(other: tuple[int, int]) -> tuple[float, float]:
        gaps = (abs(log(max(mine, 1) / its)) for mine, its in zip(size, other, strict=True))
        replicas, batch = gaps
        return replicas, batch

    return min(known, key=distance)


READER = Reader(
    "pollux",
    "Pollux: name,time,application,num_replicas,batch_size (run times from its profiles)",
    columns_are("name", "time", "application", "num_replicas", "batch_size"),
    _read,
)

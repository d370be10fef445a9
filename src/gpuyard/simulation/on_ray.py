"""Tasks on a Ray cluster, with the same interface as on processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from gpuyard.core.errors import GpuyardError, InputError, MissingExtraError
from gpuyard.simulation.pool import TaskEnd, cores

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")

AHEAD = 2
"""Tasks sent per core of the cluster: enough to keep it busy, few enough to keep its memory free."""


def run_on_ray(
    work: Callable[[P], R],
    tasks: Sequence[T],
    prepare: Callable[[T], P],
    *,
    progress: Callable[[float], None] = lambda _: None,
) -> Iterator[TaskEnd[R]]:
    """Do every task on the Ray cluster that RAY_ADDRESS names, or on one started here, and yield how each ended.

    `prepare` runs here, where the files are, and results come back here: the nodes need gpuyard, but no shared disk.
    """
    ray = _start()
    try:
        remote = ray.remote(work)
        waiting = iter(range(len(tasks)))
        room = AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        sent: dict[Any, int] = {}
        done = 0
        while True:
            for index in islice(waiting, room - len(sent)):
                try:
                    sent[remote.remote(prepare(tasks[index]))] = index
                except GpuyardError as error:
                    done += 1
                    yield TaskEnd(index, error=error)
            if not sent:
                return
            (ready, *_), _ = ray.wait(list(sent), num_returns=1)
            done += 1
            yield _end(ray, ready, sent.pop(ready))
            progress(done)
    finally:
        ray.shutdown()


def _start() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--on ray", "ray") from None
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not os.environ.get("RAY_ADDRESS"):
        # A Ray of our own, whatever others run here, listens on loopback alone, and serves no dashboard.
        quiet |= {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1", "num_cpus": cores()}
    ray.init(**quiet)
    return ray


def _end(ray: Any, ready: Any, index: int) -> TaskEnd[Any]:
    try:
        return TaskEnd(index, ray.get(ready))
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        kind = InputError if isinstance(cause, InputError) else GpuyardError
        return TaskEnd(index, error=kind(str(cause)))
    except ray.exceptions.RayError as error:
        return TaskEnd(index, error=GpuyardError(f"Ray lost the task: {error}"))

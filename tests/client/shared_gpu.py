"""A daemon and other tasks on the GPU of whatever a test trains, all in step with each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.kube.waiting import until

from gpuyard.client.shared_batch import SOCKET, TASK, SharedBatch
from gpuyard.sharing.task_daemon import TaskDaemon
from gpuyard.sharing.task_tuning import NodeTuning, TaskPlace

BEAT_S = 0.001


@contextmanager
def beside(others: int, patch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """A daemon for what this process trains, with so many other tasks on its GPU; the sizes that were wished of it.

    After each step all wait until the daemon has heard of it, so that no test depends on how fast a machine is.
    """
    rounds, heard, wished = count(), count(), set[int]()
    beats = {"now": 0}
    plain_hear, plain_step = SharedBatch._hear, SharedBatch.step
    with TemporaryDirectory(prefix="yard-", dir="/tmp") as folder:
        tuning = NodeTuning({0: 16.0}, lambda: f"round-{next(rounds)}")
        with TaskDaemon(Path(folder) / "tasks.sock", tuning, lambda name: TaskPlace(0, 4.0)) as daemon:
            thread = threading.Thread(target=daemon.run)
            thread.start()
            environment = {SOCKET: f"{folder}/tasks.sock"}
            company = [
                SharedBatch(32, beat_s=BEAT_S, environment=environment | {TASK: f"other-{each}"})
                for each in range(others)
            ]

            def hear(batch: SharedBatch, answer: dict[str, Any]) -> None:
                plain_hear(batch, answer)
                if batch not in company:
                    beats["now"] = next(heard)

            def step(batch: SharedBatch, *said: Any, **more: Any) -> bool:
                if batch in company:
                    return plain_step(batch, *said, **more)
                changed = plain_step(batch, *said, **more)
                wished.add(batch.size)
                for each in company:
                    each.step()
                before = beats["now"]
                until(lambda: beats["now"] > before + 1)
                return changed

            patch.setattr(SharedBatch, "_hear", hear)
            patch.setattr(SharedBatch, "step", step)
            patch.setattr(SharedBatch, "__init__", partialmethod(SharedBatch.__init__, beat_s=BEAT_S))
            for name, value in (environment | {TASK: "this"}).items():
                patch.setenv(name, value)
            try:
                yield wished
            finally:
                for each in company:
                    each.close()
                daemon.stop()
                thread.join()

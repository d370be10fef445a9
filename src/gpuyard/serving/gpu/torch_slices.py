"""Slices that run real models with torch, each in a process of its own: on the CPU, or on a share of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from gpuyard.serving.frames import Ended, StartBatch
from gpuyard.serving.gpu.executor import Failed, SlicePlan, UnusableError
from gpuyard.serving.gpu.torch_worker import BatchJob, ModelFile, Result, Share, work

Key = tuple[int, int]
"""A layout, and a slice of it."""


class TorchSlices:
    """One process for each slice; a process that dies takes this one with it, and the front end replaces both."""

    def __init__(self, gpu: int, device: str, models: dict[str, dict[str, Any]]) -> None:
        self._gpu, self._device = gpu, device
        self._models = {name: ModelFile.of(told) for name, told in models.items()}
        self._workers: dict[Key, tuple[BaseProcess, Connection]] = {}
        self._turns: dict[Key, tuple[Key, str]] = {}
        self._loading: dict[int, set[Key]] = {}
        self._busy: set[Key] = set()
        self._retired: set[int] = set()
        self._results: list[Ended | Failed] = []

    def prepare(self, layout: int, slices: Sequence[SlicePlan], now: float) -> None:  # noqa: ARG002
        """Start the processes; each says when its models are loaded."""
        self._loading[layout] = {(layout, part.number) for part in slices}
        for part in slices:
            key = (layout, part.number)
            for turn, model in zip(part.turns, part.models, strict=True):
                self._turns[layout, turn] = (key, model)
            self._workers[key] = self._start(part)

    def _start(self, part: SlicePlan) -> tuple[BaseProcess, Connection]:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        models = {name: self._models[name] for name in part.models}
        share = Share(self._device, self._gpu, part.percent)
        process = context.Process(target=work, args=(theirs, models, share), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def prepared(self, now: float) -> list[int]:  # noqa: ARG002
        """Layouts whose models are all loaded."""
        self._receive()
        ready = [layout for layout, missing in self._loading.items() if not missing]
        for layout in ready:
            del self._loading[layout]
        return ready

    def retire(self, layout: int) -> None:
        """End the processes of a layout as soon as they are idle."""
        self._retired.add(layout)
        self._end_retired()

    def _end_retired(self) -> None:
        for key in [key for key in self._workers if key[0] in self._retired and key not in self._busy]:
            process, connection = self._workers.pop(key)
            connection.close()
            process.join(timeout=1.0)

    def run(self, batch: StartBatch, now: float) -> None:  # noqa: ARG002
        """Hand a batch to the slice's process."""
        key, model = self._turns[batch.layout, batch.turn]
        self._busy.add(key)
        self._workers[key][1].send(BatchJob(batch.number, model, batch.size, batch.contents))

    def due_s(self) -> float | None:
        """Nothing happens but by the processes."""
        return None

    def files(self) -> Sequence[Any]:
        """Their pipes."""
        return [connection for _, connection in self._workers.values()]

    def _receive(self) -> None:
        for key, (_, connection) in list(self._workers.items()):
            while connection.poll():
                result: Result = connection.recv()
                self._take(key, result)
        self._end_retired()

    def _take(self, key: Key, result: Result) -> None:
        if result.number is None:
            if result.error:
                raise UnusableError(result.error)
            self._loading.get(key[0], set()).discard(key)
            return
        self._busy.discard(key)
        if result.error:
            self._results.append(Failed(result.number, result.error))
        else:
            self._results.append(Ended(result.number, result.begun_s, result.ended_s, result.contents))

    def finished(self, now: float) -> list[Ended | Failed]:  # noqa: ARG002
        """Batches that have ended."""
        self._receive()
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """End all processes."""
        for process, connection in self._workers.values():
            connection.close()
            process.kill()

"""The process of one slice that runs real models with torch."""

from __future__ import annotations

import logging
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from gpuyard.serving.gpu.executor import UnusableError, end_with_the_front_end

DTYPES = {
    "BOOL": "bool", "UINT8": "uint8", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
"""What torch calls the datatypes of the protocol that it has."""


@dataclass(frozen=True)
class ModelFile:
    """Where a model is, and what it takes and gives: a datatype and a shape for each."""

    path: str
    inputs: list[tuple[str, list[int]]]
    outputs: list[tuple[str, list[int]]]

    @classmethod
    def of(cls, told: dict[str, Any]) -> ModelFile:
        """Read it from JSON."""
        return cls(**told)


@dataclass(frozen=True)
class Share:
    """What a slice may use."""

    device: str
    gpu: int
    percent: int

    def take(self) -> None:
        """Limit this process, before it first speaks to a GPU: a share of the threads, enforced by CUDA MPS."""
        if self.device == "cuda":
            os.environ["CUDA_VISIBLE_DEVICES"] = str(self.gpu)
            os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(self.percent)


@dataclass(frozen=True)
class BatchJob:
    """A batch to run."""

    number: int
    model: str
    size: int
    contents: list[bytes]


@dataclass(frozen=True)
class Result:
    """What came of a batch; without a number, of loading the models."""

    number: int | None = None
    error: str = ""
    begun_s: float = 0.0
    ended_s: float = 0.0
    contents: list[bytes] = field(default_factory=list)


def work(front: Connection, files: dict[str, ModelFile], share: Share) -> None:
    """Load models, then run batches until the pipe is closed."""
    end_with_the_front_end()
    share.take()
    with suppress(EOFError, BrokenPipeError):  # whoever asked is gone
        try:
            models = {name: _Model(file, share.device) for name, file in files.items()}
        except UnusableError as error:
            front.send(Result(error=str(error)))
            return
        front.send(Result())
        while True:
            job: BatchJob = front.recv()
            front.send(_run(models[job.model], job))


def _run(model: _Model, job: BatchJob) -> Result:
    begun_s = monotonic()
    try:
        contents = model.run(job.size, job.contents)
    except Exception as error:  # of the model, whoever wrote it
        return Result(job.number, f"{type(error).__name__}: {error}"[:500])
    return Result(job.number, "", begun_s, monotonic(), contents)


class _Model:
    """A model that torch.export or, in its time, TorchScript has saved."""

    def __init__(self, file: ModelFile, device: str) -> None:
        import torch

        self._torch, self._file, self._device = torch, file, device
        torch.set_num_threads(1)
        try:
            self._model = self._load(file.path)
        except Exception as error:  # of whatever is in the file
            raise UnusableError(f"{file.path} cannot be loaded: {' '.join(str(error).split())}"[:500]) from None

    def _load(self, path: str) -> Any:
        if path.endswith(".pt2"):
            logging.getLogger("torch.export").setLevel(logging.CRITICAL)  # what is raised says it in one line
            return self._torch.export.load(path).module().to(self._device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is on its way out, and so will be these files
            return self._torch.jit.load(path, map_location=self._device).eval()  # type: ignore[no-untyped-call]

    def run(self, size: int, contents: list[bytes]) -> list[bytes]:
        """The outputs of a batch; each must have the bytes that the model promises."""
        torch = self._torch
        inputs = [
            torch.frombuffer(bytearray(content), dtype=getattr(torch, DTYPES[datatype]))
            .reshape(size, *shape)
            .to(self._device)
            for content, (datatype, shape) in zip(contents, self._file.inputs, strict=True)
        ]
        with torch.inference_mode():
            found = self._model(*inputs)
        outputs = found if isinstance(found, (tuple, list)) else (found,)
        return [
            self._bytes(output, size, datatype, shape)
            for output, (datatype, shape) in zip(outputs, self._file.outputs, strict=True)
        ]

    def _bytes(self, output: Any, size: int, datatype: str, shape: list[int]) -> bytes:
        wanted = (size, *shape)
        if tuple(output.shape) != wanted:
            raise ValueError(f"an output has shape {list(output.shape)}, not {list(wanted)}")
        plain = output.to("cpu", getattr(self._torch, DTYPES[datatype])).contiguous()
        return bytes(plain.view(self._torch.uint8).numpy().tobytes())

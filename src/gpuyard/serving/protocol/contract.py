"""What a model promises: its inputs and outputs, and how metadata and configuration say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from typing import Any

from gpuyard.serving.protocol.tensors import DATATYPES, TensorSpec

VERSION = "1"
"""Every model has this version only."""
NUMBER_BYTES = 64
"""That a number takes in JSON at most, with all that is between it and the next."""
SPARE_VALUES, SPARE_BYTES = 10_000, 1 << 16
"""For all of a request that is no tensor."""


@dataclass(frozen=True)
class Contract:
    """One model as clients see it."""

    name: str
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch: int
    about: dict[str, str]
    """What a client might want to know besides, by name."""

    @property
    def row_bytes(self) -> int:
        """Bytes of all inputs of one row."""
        return sum(each.row_bytes for each in self.inputs)

    @cached_property
    def most_values(self) -> float:
        """What JSON has of commas and brackets in any request, and more."""
        return SPARE_VALUES + self.max_batch * sum(_elements(each) + _lists(each) for each in self.inputs)

    @cached_property
    def most_bytes(self) -> float:
        """Of a body of HTTP, even where each number stands on an indented line of its own."""
        return SPARE_BYTES + self.max_batch * sum(
            each.row_bytes + NUMBER_BYTES * _elements(each) for each in self.inputs
        )

    def metadata(self) -> dict[str, Any]:
        """What the protocol calls a model's metadata; the first dimension is the batch."""
        return {
            "name": self.name,
            "versions": [VERSION],
            "platform": self.platform,
            "inputs": [_described(each) for each in self.inputs],
            "outputs": [_described(each) for each in self.outputs],
        }

    def config(self, batches: Sequence[int] = ()) -> dict[str, Any]:
        """What Triton calls a model's configuration; the planned batches are the preferred ones."""
        return {
            "name": self.name,
            "platform": self.platform,
            "backend": "gpuyard",
            "max_batch_size": self.max_batch,
            "input": [_configured(each) for each in self.inputs],
            "output": [_configured(each) for each in self.outputs],
            "dynamic_batching": {"preferred_batch_size": sorted(set(batches))},
            "parameters": {name: {"string_value": text} for name, text in self.about.items()},
        }


def _elements(spec: TensorSpec) -> float:
    """Of one row; texts may be of any length, and have commas."""
    return prod(spec.shape) if DATATYPES[spec.datatype].size else inf


def _lists(spec: TensorSpec) -> int:
    """Of one row, where each dimension is a list of lists."""
    return sum(prod(spec.shape[:end]) for end in range(len(spec.shape)))


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [-1, *spec.shape]}


def _configured(spec: TensorSpec) -> dict[str, Any]:
    assert spec.datatype in DATATYPES
    kind = "STRING" if spec.datatype == "BYTES" else spec.datatype
    return {"name": spec.name, "data_type": f"TYPE_{kind}", "dims": list(spec.shape)}

"""What a model promises: its inputs and outputs, and how metadata and configuration say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuyard.serving.protocol.tensors import DATATYPES, TensorSpec

VERSION = "1"
"""Every model has this version only."""


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


def _described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": [-1, *spec.shape]}


def _configured(spec: TensorSpec) -> dict[str, Any]:
    assert spec.datatype in DATATYPES
    kind = "STRING" if spec.datatype == "BYTES" else spec.datatype
    return {"name": spec.name, "data_type": f"TYPE_{kind}", "dims": list(spec.shape)}

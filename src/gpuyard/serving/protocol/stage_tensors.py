"""What passes between the stages of an application, and what of it clients see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np

from gpuyard.core.application import Application, Stage
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.tensors import DATATYPES, Tensor, TensorSpec

ENSEMBLE = "ensemble"
"""What Triton calls the platform of such a model."""


def application_contract(of: Application, contracts: Mapping[str, Contract]) -> Contract:
    """An application as one model: it takes what its first stages take, and gives what its last ones give.

    Tensors have the stage before their names. An output of a stage that is asked several times for a request has all of
    its answers, one behind the other.
    """
    stages = {stage.name: contracts[of.service_id(stage.name)] for stage in of.stages}
    inputs = [named(stage, spec) for stage in of.stages if not stage.after for spec in stages[stage.name].inputs]
    outputs = [named(stage, _several(stage, spec)) for stage in last_stages(of) for spec in stages[stage.name].outputs]
    about = {
        "stages": "; ".join(_described(each) for each in of.stages),
        "slo_ms": f"{of.slo_ms:g}",
    }
    most = min(each.max_batch for each in stages.values())
    return Contract(of.name, ENSEMBLE, tuple(inputs), tuple(outputs), most, about)


def named(stage: Stage, spec: TensorSpec) -> TensorSpec:
    """A stage's tensor as clients of the application know it."""
    return TensorSpec(f"{stage.name}/{spec.name}", spec.datatype, spec.shape)


def last_stages(of: Application) -> list[Stage]:
    """Those that no other waits for."""
    awaited = {other for stage in of.stages for other in stage.after}
    return [stage for stage in of.stages if stage.name not in awaited]


def _several(stage: Stage, spec: TensorSpec) -> TensorSpec:
    if stage.per_request == 1:
        return spec
    return TensorSpec(spec.name, spec.datatype, (ceil(stage.per_request), *spec.shape))


def _described(stage: Stage) -> str:
    behind = f" after {', '.join(stage.after)}" if stage.after else ""
    return f"{stage.name} ({stage.model}){behind}"


def padded(content: bytes, length: int) -> bytes:
    """Just so many bytes: cut, or with zeros at the end."""
    return content[:length] + bytes(max(length - len(content), 0))


def fitted(given: Sequence[Tensor], spec: TensorSpec) -> Tensor:
    """One row of an input made of what earlier stages gave: their values one behind the other, cut or filled up with 0.

    The values become those of the input's datatype; what numpy has no numbers for is taken byte by byte.
    """
    kind = DATATYPES[spec.datatype].numpy
    if kind and all(DATATYPES[each.datatype].numpy for each in given):
        with np.errstate(invalid="ignore", over="ignore"):
            parts = [np.frombuffer(each.content, DATATYPES[each.datatype].numpy).astype(kind) for each in given]
        content = b"".join(part.tobytes() for part in parts)
    else:
        content = b"".join(bytes(each.content) for each in given)
    return Tensor(spec.name, spec.datatype, (1, *spec.shape), padded(content, spec.row_bytes))

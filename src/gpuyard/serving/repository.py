"""A folder of models: for each a file of torch, NAME.pt2 or NAME.pt, and a NAME.json: what it takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from gpuyard.core.errors import InputError
from gpuyard.core.service import Service
from gpuyard.profiles.checking import Strict, check
from gpuyard.profiles.inference import BATCHES
from gpuyard.profiles.json_files import read_json
from gpuyard.serving.gpu.torch_worker import DTYPES
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.tensors import TensorSpec

VERSION = "model/1"
PLATFORM = "pytorch_libtorch"
SUFFIXES = ("pt2", "pt")
"""Of what torch.export saves, and of TorchScript."""


class _Tensor(Strict):
    name: str = Field(min_length=1)
    datatype: str
    shape: list[Annotated[int, Field(ge=1)]]
    """Without the batch."""


class _Model(Strict):
    gpuyard: str
    inputs: list[_Tensor] = Field(min_length=1)
    outputs: list[_Tensor] = Field(min_length=1)


def read_repository(folder: Path | None, services: Sequence[Service]) -> tuple[dict[str, Contract], dict[str, Any]]:
    """The contract of each service, and what its executor has to know: where the model is, and its tensors."""
    if folder is None:
        raise InputError("is needed: real models are in a folder", field="models", hint="As in --models DIR")
    contracts, files = {}, {}
    for service in services:
        name = str(service.service_id)
        path = _find(folder, service)
        told = check(_Model, read_json(path.with_suffix(".json"), VERSION, "model"), path.with_suffix(".json"), "model")
        inputs, outputs = (_specs(path, side) for side in (told.inputs, told.outputs))
        about = {"model": service.model, "slo_ms": f"{service.slo_ms:g}"}
        contracts[name] = Contract(name, PLATFORM, inputs, outputs, BATCHES, about)
        files[name] = {
            "path": str(path),
            "inputs": [(each.datatype, list(each.shape)) for each in inputs],
            "outputs": [(each.datatype, list(each.shape)) for each in outputs],
        }
    return contracts, files


def _find(folder: Path, service: Service) -> Path:
    """The model's file, by the name of the service or of its model."""
    names = dict.fromkeys((str(service.service_id), service.model))
    for path in [folder / f"{name}.{suffix}" for name in names for suffix in SUFFIXES]:
        if path.is_file():
            return path
    rule = f"has no model for service {service.service_id}"
    wanted = " or ".join(f"{name}.{suffix}" for name in names for suffix in SUFFIXES)
    raise InputError(rule, file=folder, field="models", hint=f"It would be {wanted}")


def _specs(path: Path, tensors: list[_Tensor]) -> tuple[TensorSpec, ...]:
    for each in tensors:
        if each.datatype not in DTYPES:
            rule, hint = "is not a datatype of a model", f"One of {', '.join(DTYPES)}"
            raise InputError(rule, file=path.with_suffix(".json"), field=each.name, value=each.datatype, hint=hint)
        if sum(other.name == each.name for other in tensors) > 1:
            raise InputError("stands twice", file=path.with_suffix(".json"), field="name", value=each.name)
    return tuple(TensorSpec(each.name, each.datatype, tuple(each.shape)) for each in tensors)

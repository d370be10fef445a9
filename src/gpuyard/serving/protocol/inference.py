"""A request for inference and its answer, as values that HTTP and gRPC share."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from math import prod

from gpuyard.serving.protocol.contract import VERSION, Contract
from gpuyard.serving.protocol.errors import ProtocolError, Status, invalid
from gpuyard.serving.protocol.tensors import DATATYPES, Tensor, TensorSpec, check_bytes

UNSUPPORTED = {"shared_memory_region": "shared memory", "classification": "classification"}
"""Parameters of tensors that Triton knows, and what they ask for."""


@dataclass(frozen=True, slots=True)
class InferRequest:
    """Rows for one model."""

    model: str
    rows: int
    inputs: tuple[Tensor, ...]
    request_id: str = ""
    outputs: tuple[str, ...] = ()
    """Those that are asked for; all of them if none is named."""
    binary: frozenset[str] = field(default_factory=frozenset)
    """The outputs that are to come as bytes behind the JSON."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the time of a request went, on the GPU's side, in seconds."""

    queue_s: float
    compute_s: float


@dataclass(frozen=True, slots=True)
class InferAnswer:
    """What came out."""

    outputs: tuple[Tensor, ...]
    timing: Timing


LONGEST_ID = 1024
"""Letters of a request's id, which every answer carries back."""


def check_id(request_id: str) -> str:
    """The id of a request; raises if it is too long."""
    if len(request_id) > LONGEST_ID:
        raise invalid(f"'id' has {len(request_id)} letters; it may have {LONGEST_ID}")
    return request_id


def check_version(version: str) -> None:
    """Raise unless there is such a version of a model."""
    if version not in ("", VERSION):
        raise ProtocolError(
            Status.UNKNOWN, f"version {version!r} is not there; every model has version {VERSION!r} only"
        )


def make_input(spec: TensorSpec, contract: Contract, datatype: str, shape: Sequence[int], content: bytes) -> Tensor:
    """An input that keeps the contract; raises otherwise."""
    check_shape(spec, contract, datatype, shape)
    check_bytes(spec.name, datatype, prod(shape), content)
    return Tensor(spec.name, datatype, tuple(shape), content)


def check_shape(spec: TensorSpec, contract: Contract, datatype: str, shape: Sequence[int]) -> None:
    """Raise unless datatype and shape are what the model takes, with a batch in front."""
    if datatype not in DATATYPES:
        raise invalid(f"input '{spec.name}' has an unknown datatype {datatype!r}")
    if datatype != spec.datatype:
        raise invalid(f"input '{spec.name}' has datatype {datatype}, and the model takes {spec.datatype}")
    if len(shape) != len(spec.shape) + 1 or tuple(shape[1:]) != spec.shape:
        wanted = ["batch", *spec.shape]
        raise invalid(f"input '{spec.name}' has shape {list(shape)}, and the model takes {wanted}")
    if not 1 <= shape[0] <= contract.max_batch:
        raise invalid(f"input '{spec.name}' has a batch of {shape[0]}; it must be from 1 to {contract.max_batch}")


def find_input(contract: Contract, name: object) -> TensorSpec:
    """The input of this name."""
    for spec in contract.inputs:
        if spec.name == name:
            return spec
    known = ", ".join(each.name for each in contract.inputs)
    raise invalid(f"unexpected input {name!r} for model '{contract.name}', which takes {known}")


def check_parameters(tensor: str, parameters: Container[str]) -> None:
    """Raise where a parameter asks for something that is not there: without it, the answer would be another."""
    for name, what in UNSUPPORTED.items():
        if name in parameters:
            raise invalid(f"{tensor}: {what} is not supported")


def check_complete(contract: Contract, inputs: Sequence[Tensor]) -> int:
    """Return the batch; raise unless every input is there once and all have the same batch."""
    names = [each.name for each in inputs]
    for spec in contract.inputs:
        if names.count(spec.name) != 1:
            raise invalid(f"model '{contract.name}' takes input '{spec.name}' once, not {names.count(spec.name)} times")
    rows = {each.shape[0] for each in inputs}
    if len(rows) != 1:
        raise invalid(f"inputs have different batches: {sorted(rows)}")
    return rows.pop()


def check_outputs(contract: Contract, asked: Sequence[tuple[object, Container[str]]]) -> tuple[str, ...]:
    """The outputs that are asked for, each with its parameters; raise if the model does not give one of them so."""
    known = [each.name for each in contract.outputs]
    for name, parameters in asked:
        if name not in known:
            raise invalid(f"unexpected output {name!r} for model '{contract.name}', which gives {', '.join(known)}")
        check_parameters(f"output '{name}'", parameters)
    return tuple(str(name) for name, _ in asked)

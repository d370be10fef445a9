"""Requests as bytes: tensors of the shape that a model declares, made once and sent again and again."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import orjson

from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.serving.load.target import Target
from gpuyard.serving.protocol.errors import ProtocolError
from gpuyard.serving.protocol.messages import messages
from gpuyard.serving.protocol.tensors import DATATYPES, LENGTH_BYTES, Tensor, numbers_of

_TEXT = b"0"
"""An element of the datatype BYTES; all others are zeros."""


def make_tensor(name: str, datatype: str, shape: Sequence[int], batch: int) -> Tensor:
    """An input of a model; the first dimension that it leaves open is the batch, any other is 1."""
    if datatype not in DATATYPES:
        raise GpuyardError(f"input {name} has the datatype {datatype}, which gpuyard does not know")
    sizes = tuple((1 if place else batch) if size < 0 else size for place, size in enumerate(shape))
    count, size = prod(sizes), DATATYPES[datatype].size
    element = bytes(size) if size else len(_TEXT).to_bytes(LENGTH_BYTES, "little") + _TEXT
    return Tensor(name, datatype, sizes, element * count)


def http_message(target: Target, model: str, tensors: Sequence[Tensor], *, as_json: bool = False) -> bytes:
    """A whole request over HTTP; tensors are bytes behind the JSON, or numbers in it."""
    head = orjson.dumps({
        "inputs": [_described(each, as_json) for each in tensors],
        **({} if as_json else {"parameters": {"binary_data_output": True}}),
    })  # fmt: skip
    body = head if as_json else head + b"".join(each.content for each in tensors)
    lines = [
        f"POST {target.path(model, 'infer')} HTTP/1.1",
        f"Host: {target.address}",
        f"Content-Type: application/{'json' if as_json else 'octet-stream'}",
        f"Content-Length: {len(body)}",
        *([] if as_json else [f"Inference-Header-Content-Length: {len(head)}"]),
        *([f"Authorization: Bearer {target.token}"] if target.token else []),
        "\r\n",
    ]
    return "\r\n".join(lines).encode() + body


def _described(tensor: Tensor, as_json: bool) -> dict[str, object]:
    found: dict[str, object] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    if as_json:
        return found | {"data": _numbers(tensor)}
    return found | {"parameters": {"binary_data_size": len(tensor.content)}}


def _numbers(tensor: Tensor) -> list[object]:
    try:
        return numbers_of(tensor)
    except ProtocolError:
        rule = f"has no form in JSON, and the input {tensor.name} has it"
        raise InputError(rule, field="datatype", value=tensor.datatype, hint="Send tensors as bytes") from None


def grpc_message(model: str, tensors: Sequence[Tensor]) -> bytes:
    """A request of gRPC, as it goes over the wire."""
    found = messages()["ModelInferRequest"](model_name=model)
    for each in tensors:
        found.inputs.add(name=each.name, datatype=each.datatype, shape=each.shape)
        found.raw_input_contents.append(each.content)
    return bytes(found.SerializeToString())

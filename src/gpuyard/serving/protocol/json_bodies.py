"""Bodies of HTTP: JSON, and behind it the tensors that come as bytes (Triton's binary tensor data extension)."""

from __future__ import annotations

from math import prod
from typing import Any

import orjson

from gpuyard.serving.protocol.contract import VERSION, Contract
from gpuyard.serving.protocol.errors import ProtocolError, Status, invalid
from gpuyard.serving.protocol.inference import (
    InferAnswer,
    InferRequest,
    check_complete,
    check_id,
    check_outputs,
    check_parameters,
    check_shape,
    find_input,
    make_input,
)
from gpuyard.serving.protocol.tensors import Tensor, bytes_of, numbers_of


def parse_infer(contract: Contract, body: bytes, json_length: int | None = None) -> InferRequest:
    """Read a request; `json_length` is where the JSON ends and the binary tensors begin."""
    if json_length is not None and not 0 <= json_length <= len(body):
        raise invalid(f"Inference-Header-Content-Length is {json_length}, and the body has {len(body)} bytes")
    text = body if json_length is None else body[:json_length]
    if sum(map(text.count, (b",", b"[", b"{"))) > contract.most_values:
        raise too_large(contract)
    head = parse_object(text)
    behind = _Behind(body, len(body) if json_length is None else json_length)
    inputs = tuple(_input(contract, each, behind) for each in _list(head, "inputs"))
    behind.check_end()
    outputs = _list(head, "outputs") if "outputs" in head else []
    names = check_outputs(contract, [(each.get("name"), _parameters(each)) for each in outputs])
    binary = _binary(contract, head, outputs)
    rows, request_id = check_complete(contract, inputs), check_id(_text(head, "id"))
    return InferRequest(contract.name, rows, inputs, request_id, names, binary)


def too_large(contract: Contract) -> ProtocolError:
    """What is said to a body that no request for a model can have: to read it would take seconds, and its size in
    memory many times.
    """
    text = f"a request for '{contract.name}' has at most {contract.max_batch} rows, and is not as large as this one"
    return ProtocolError(Status.TOO_LARGE, text)


def parse_object(text: bytes) -> dict[str, Any]:
    """Read an object of JSON; nothing at all is an empty one."""
    try:
        found = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError as error:
        raise invalid(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise invalid("the body is not an object of JSON")
    return found


def _list(owner: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = owner.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise invalid(f"'{name}' must be a list of objects")
    return found


def _text(owner: dict[str, Any], name: str) -> str:
    found = owner.get(name, "")
    if not isinstance(found, str):
        raise invalid(f"'{name}' must be text")
    return found


def _parameters(owner: dict[str, Any]) -> dict[str, Any]:
    found = owner.get("parameters", {})
    if not isinstance(found, dict):
        raise invalid("'parameters' must be an object")
    return found


class _Behind:
    """The bytes behind the JSON, taken one tensor after another."""

    def __init__(self, body: bytes, start: int) -> None:
        self._body, self._at = body, start

    def take(self, size: object) -> bytes:
        if type(size) is not int or not 0 <= size <= len(self._body) - self._at:
            raise invalid(f"binary_data_size is {size!r}, and {len(self._body) - self._at} bytes are left in the body")
        self._at += size
        return self._body[self._at - size : self._at]

    def check_end(self) -> None:
        if self._at != len(self._body):
            raise invalid(f"{len(self._body) - self._at} bytes of the body belong to no input")


def _input(contract: Contract, given: dict[str, Any], behind: _Behind) -> Tensor:
    spec = find_input(contract, given.get("name"))
    datatype, shape = _text(given, "datatype"), given.get("shape")
    if not isinstance(shape, list) or not all(type(each) is int and each >= 0 for each in shape):
        raise invalid(f"input '{spec.name}': 'shape' must be a list of whole numbers")
    parameters = _parameters(given)
    check_parameters(f"input '{spec.name}'", parameters)
    size = parameters.get("binary_data_size")
    if size is not None:
        return make_input(spec, contract, datatype, shape, behind.take(size))
    if "data" not in given:
        raise invalid(f"input '{spec.name}' has neither 'data' nor 'binary_data_size'")
    check_shape(spec, contract, datatype, shape)
    return Tensor(spec.name, datatype, tuple(shape), bytes_of(spec.name, datatype, prod(shape), given["data"]))


def _binary(contract: Contract, head: dict[str, Any], outputs: list[dict[str, Any]]) -> frozenset[str]:
    """The outputs to send as bytes: each may say so; if none is named, one word holds for all."""
    if outputs:
        return frozenset(each["name"] for each in outputs if _parameters(each).get("binary_data") is True)
    every = _parameters(head).get("binary_data_output") is True
    return frozenset(each.name for each in contract.outputs) if every else frozenset()


def format_infer(request: InferRequest, answer: InferAnswer) -> tuple[bytes, int | None]:
    """The body of an answer, and where its JSON ends if binary tensors follow."""
    wanted = [each for each in answer.outputs if not request.outputs or each.name in request.outputs]
    head: dict[str, Any] = {"model_name": request.model, "model_version": VERSION}
    if request.request_id:
        head["id"] = request.request_id
    head["outputs"] = [_output(each, each.name in request.binary) for each in wanted]
    text = orjson.dumps(head)
    behind = [each.content for each in wanted if each.name in request.binary]
    return (b"".join([text, *behind]), len(text)) if behind else (text, None)


def _output(tensor: Tensor, binary: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape}
    if binary:
        return found | {"parameters": {"binary_data_size": len(tensor.content)}}
    return found | {"data": numbers_of(tensor)}

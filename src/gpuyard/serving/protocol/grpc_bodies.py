"""Requests and answers as gRPC messages."""

from __future__ import annotations

from math import prod
from typing import Any

from gpuyard.serving.protocol.contract import VERSION, Contract
from gpuyard.serving.protocol.errors import invalid
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
from gpuyard.serving.protocol.messages import messages
from gpuyard.serving.protocol.tensors import DATATYPES, Tensor, TensorSpec, bytes_of


def read_infer(contract: Contract, message: Any) -> InferRequest:
    """A request; tensors come as raw bytes, all of them, or each in its contents."""
    for what, given, known in (
        ("inputs", message.inputs, contract.inputs),
        ("outputs", message.outputs, contract.outputs),
    ):
        if len(given) > len(known):
            raise invalid(f"there are {len(given)} {what}, and model '{contract.name}' has {len(known)}")
    for each in message.inputs:
        check_parameters(f"input '{each.name}'", each.parameters)
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise invalid(f"raw_input_contents has {len(raw)} tensors, and there are {len(message.inputs)} inputs")
    inputs = []
    for position, each in enumerate(message.inputs):
        spec = find_input(contract, each.name)
        if raw:
            inputs.append(make_input(spec, contract, each.datatype, each.shape, raw[position]))
        else:
            inputs.append(_from_contents(spec, contract, each))
    names = check_outputs(contract, [(each.name, each.parameters) for each in message.outputs])
    return InferRequest(contract.name, check_complete(contract, inputs), tuple(inputs), check_id(message.id), names)


def _from_contents(spec: TensorSpec, contract: Contract, given: Any) -> Tensor:
    check_shape(spec, contract, given.datatype, given.shape)
    field = DATATYPES[given.datatype].contents
    if not field:
        raise invalid(f"input '{spec.name}': {given.datatype} comes in raw_input_contents only")
    data, count = getattr(given.contents, field), prod(given.shape)
    if len(data) != count:
        raise invalid(f"input '{spec.name}' has {len(data)} elements in {field}, and its shape has {count}")
    return Tensor(
        spec.name, given.datatype, tuple(given.shape), bytes_of(spec.name, given.datatype, count, list(data))
    )  # fmt: skip


def write_infer(request: InferRequest, answer: InferAnswer) -> Any:
    """The answer, its tensors as raw bytes."""
    found = messages()["ModelInferResponse"](model_name=request.model, model_version=VERSION, id=request.request_id)
    for each in answer.outputs:
        if not request.outputs or each.name in request.outputs:
            found.outputs.add(name=each.name, datatype=each.datatype, shape=each.shape)
            found.raw_output_contents.append(each.content)
    return found


def write_config(config: dict[str, Any]) -> Any:
    """A model configuration; datatypes are numbers here."""
    found = messages()["ModelConfig"](
        name=config["name"], platform=config["platform"], backend=config["backend"],
        max_batch_size=config["max_batch_size"],
    )  # fmt: skip
    for side in ("input", "output"):
        for each in config[side]:
            kind = each["data_type"].removeprefix("TYPE_").replace("STRING", "BYTES")
            getattr(found, side).add(name=each["name"], data_type=DATATYPES[kind].number, dims=each["dims"])
    found.dynamic_batching.preferred_batch_size.extend(config["dynamic_batching"]["preferred_batch_size"])
    for name, value in config["parameters"].items():
        found.parameters[name].string_value = value["string_value"]
    return found

"""The protocol's gRPC messages, built from a table of names, numbers and types.

One line a message: `Name: field=number type, …`; `*` before a type is a list, `{}` after it a map from text to it,
`|` before it one of several of which only one is set. A name with a dot lies in the message before the dot.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = "inference.GRPCInferenceService"

_TABLE = """
ServerLiveRequest:
ServerLiveResponse: live=1 bool
ServerReadyRequest:
ServerReadyResponse: ready=1 bool
ModelReadyRequest: name=1 string, version=2 string
ModelReadyResponse: ready=1 bool
ServerMetadataRequest:
ServerMetadataResponse: name=1 string, version=2 string, extensions=3 *string
ModelMetadataRequest: name=1 string, version=2 string
ModelMetadataResponse: name=1 string, versions=2 *string, platform=3 string, inputs=4 *.TensorMetadata, \
outputs=5 *.TensorMetadata
ModelMetadataResponse.TensorMetadata: name=1 string, datatype=2 string, shape=3 *int64
InferParameter: bool_param=1 |bool, int64_param=2 |int64, string_param=3 |string, double_param=4 |double, \
uint64_param=5 |uint64
InferTensorContents: bool_contents=1 *bool, int_contents=2 *int32, int64_contents=3 *int64, uint_contents=4 *uint32, \
uint64_contents=5 *uint64, fp32_contents=6 *float, fp64_contents=7 *double, bytes_contents=8 *bytes
ModelInferRequest: model_name=1 string, model_version=2 string, id=3 string, parameters=4 InferParameter{}, \
inputs=5 *.InferInputTensor, outputs=6 *.InferRequestedOutputTensor, raw_input_contents=7 *bytes
ModelInferRequest.InferInputTensor: name=1 string, datatype=2 string, shape=3 *int64, parameters=4 InferParameter{}, \
contents=5 InferTensorContents
ModelInferRequest.InferRequestedOutputTensor: name=1 string, parameters=2 InferParameter{}
ModelInferResponse: model_name=1 string, model_version=2 string, id=3 string, parameters=4 InferParameter{}, \
outputs=5 *.InferOutputTensor, raw_output_contents=6 *bytes
ModelInferResponse.InferOutputTensor: name=1 string, datatype=2 string, shape=3 *int64, parameters=4 InferParameter{}, \
contents=5 InferTensorContents
ModelStreamInferResponse: error_message=1 string, infer_response=2 ModelInferResponse
ModelConfigRequest: name=1 string, version=2 string
ModelConfigResponse: config=1 ModelConfig
ModelConfig: name=1 string, platform=2 string, max_batch_size=4 int32, input=5 *ModelInput, output=6 *ModelOutput, \
dynamic_batching=11 ModelDynamicBatching, parameters=14 ModelParameter{}, backend=17 string
ModelInput: name=1 string, data_type=2 int32, dims=4 *int64
ModelOutput: name=1 string, data_type=2 int32, dims=3 *int64
ModelDynamicBatching: preferred_batch_size=1 *int32
ModelParameter: string_value=1 string
ModelStatisticsRequest: name=1 string, version=2 string
ModelStatisticsResponse: model_stats=1 *ModelStatistics
ModelStatistics: name=1 string, version=2 string, last_inference=3 uint64, inference_count=4 uint64, \
execution_count=5 uint64, inference_stats=6 InferStatistics, batch_stats=7 *InferBatchStatistics
InferStatistics: success=1 StatisticDuration, fail=2 StatisticDuration, queue=3 StatisticDuration, \
compute_input=4 StatisticDuration, compute_infer=5 StatisticDuration, compute_output=6 StatisticDuration, \
cache_hit=7 StatisticDuration, cache_miss=8 StatisticDuration
InferBatchStatistics: batch_size=1 uint64, compute_input=2 StatisticDuration, compute_infer=3 StatisticDuration, \
compute_output=4 StatisticDuration
StatisticDuration: count=1 uint64, ns=2 uint64
RepositoryIndexRequest: repository_name=1 string, ready=2 bool
RepositoryIndexResponse: models=1 *.ModelIndex
RepositoryIndexResponse.ModelIndex: name=1 string, version=2 string, state=3 string, reason=4 string
ModelRepositoryParameter: bool_param=1 |bool, int64_param=2 |int64, string_param=3 |string, bytes_param=4 |bytes
RepositoryModelLoadRequest: repository_name=1 string, model_name=2 string, parameters=3 ModelRepositoryParameter{}
RepositoryModelLoadResponse:
RepositoryModelUnloadRequest: repository_name=1 string, model_name=2 string, parameters=3 ModelRepositoryParameter{}
RepositoryModelUnloadResponse:
"""

METHODS = (
    *("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer", "ModelConfig"),
    *("ModelStatistics", "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"),
)
"""Each takes a message with `Request` behind its name and answers with one with `Response`."""
STREAM = "ModelStreamInfer"
"""Takes requests for inference one after another, and answers each."""

_TYPES: dict[str, int] = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12, "uint32": 13,
}  # fmt: skip
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3


@lru_cache(maxsize=1)
def messages() -> dict[str, Any]:
    """The classes of all messages by name; in a pool of their own, where no others of these names are."""
    file = descriptor_pb2.FileDescriptorProto(name="gpuyard/inference.proto", package=PACKAGE, syntax="proto3")
    for line in _TABLE.strip().splitlines():
        name, _, fields = line.partition(":")
        outer, _, inner = name.partition(".")
        owner = (
            next(each for each in file.message_type if each.name == outer).nested_type if inner else file.message_type
        )
        _fill(owner.add(name=inner or outer), outer, fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [each.name for each in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in names}


def _fill(message: Any, outer: str, fields: str) -> None:
    full = f".{PACKAGE}.{outer}" + ("" if message.name == outer else f".{message.name}")
    for name, number, sign, kind, mapped in re.findall(r"(\w+)=(\d+) ([*|]?)([\w.]+)(\{\})?", fields):
        if mapped:
            entry = _add_entry(message, name, kind)
            message.field.add(
                name=name, number=int(number), label=_REPEATED, type=_MESSAGE, type_name=f"{full}.{entry}"
            )
            continue
        field = message.field.add(name=name, number=int(number), label=_REPEATED if sign == "*" else _OPTIONAL)
        _set_type(field, kind, full)
        if sign == "|":
            if not message.oneof_decl:
                message.oneof_decl.add(name="parameter_choice")
            field.oneof_index = 0


def _add_entry(message: Any, name: str, kind: str) -> str:
    """A map is a list of a message of its own, with a key and a value."""
    entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    _set_type(entry.field.add(name="key", number=1, label=_OPTIONAL), "string", "")
    _set_type(entry.field.add(name="value", number=2, label=_OPTIONAL), kind, "")
    return str(entry.name)


def _set_type(field: Any, kind: str, full: str) -> None:
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type = _MESSAGE
        field.type_name = full + kind if kind.startswith(".") else f".{PACKAGE}.{kind}"

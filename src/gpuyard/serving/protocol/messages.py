"""The protocol's gRPC messages, built from a table (core/message_tables.py)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gpuyard.core.message_tables import build_messages

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


@lru_cache(maxsize=1)
def messages() -> dict[str, Any]:
    """The classes of all messages by name."""
    return build_messages(PACKAGE, _TABLE)

"""Our gRPC messages, built from a table, are those of the protocol: names, numbers and types."""

from typing import Any

import pytest

from gpuyard.serving.protocol.messages import METHODS, STREAM, messages

triton = pytest.importorskip("tritonclient.grpc")


def theirs(name: str) -> Any:
    for module in (triton.service_pb2, triton.model_config_pb2):
        if name in module.DESCRIPTOR.message_types_by_name:
            return module.DESCRIPTOR.message_types_by_name[name]
    return pytest.fail(f"the protocol has no message {name}")


def fields(message: Any) -> dict[str, tuple[Any, ...]]:
    return {
        each.name: (each.number, each.type, each.is_repeated, each.message_type.name if each.message_type else "")
        for each in message.fields
    }


@pytest.mark.parametrize("name", sorted(messages()))
def test_every_field_is_one_of_the_protocol(name: str) -> None:
    ours, other = messages()[name].DESCRIPTOR, theirs(name)
    compare(ours, other)
    for inner in ours.nested_types:
        compare(inner, other.nested_types_by_name[inner.name])


def compare(ours: Any, other: Any) -> None:
    known = fields(other)
    for field, found in fields(ours).items():
        enum = known[field][1] == 14  # which goes over the wire as the whole number that it is here
        assert found[0] == known[field][0] if enum else found == known[field]


def test_methods_are_those_of_the_protocol() -> None:
    [service] = triton.service_pb2.DESCRIPTOR.services_by_name.values()
    assert service.full_name == "inference.GRPCInferenceService"
    assert {*METHODS, STREAM} <= {each.name for each in service.methods}


def test_what_one_writes_the_other_reads() -> None:
    request = messages()["ModelInferRequest"](model_name="a", id="b", raw_input_contents=[b"c"])
    request.parameters["priority"].int64_param = 7
    request.inputs.add(name="d", datatype="FP32", shape=[1, 2])
    read = triton.service_pb2.ModelInferRequest.FromString(request.SerializeToString())
    assert messages()["ModelInferRequest"].FromString(read.SerializeToString()) == request
    assert (read.parameters["priority"].int64_param, list(read.inputs[0].shape)) == (7, [1, 2])

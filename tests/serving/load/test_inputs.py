"""Requests as bytes: whoever speaks the protocol reads from them what the model declares."""

import numpy as np
import pytest

from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.serving.load.inputs import grpc_message, http_message, make_tensor
from gpuyard.serving.load.target import Target
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.grpc_bodies import read_infer
from gpuyard.serving.protocol.json_bodies import parse_infer
from gpuyard.serving.protocol.messages import messages
from gpuyard.serving.protocol.tensors import DATATYPES, TensorSpec

TARGET = Target.parse("http://127.0.0.1:8000/gate", token="secret")


def contract(datatype: str) -> Contract:
    specs = (TensorSpec("x", datatype, (2, 3)), TensorSpec("y", "INT64", ()))
    return Contract("my model", "any", specs, specs, 8, {})


def split(message: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = message.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("batch", [1, 4])
def test_a_server_reads_the_tensors_that_its_metadata_declare(datatype: str, batch: int) -> None:
    of = contract(datatype)
    tensors = [make_tensor(each["name"], each["datatype"], each["shape"], batch) for each in of.metadata()["inputs"]]
    first, headers, body = split(http_message(TARGET, of.name, tensors))
    assert first == "POST /gate/v2/models/my%20model/infer HTTP/1.1"
    assert headers["Host"] == "127.0.0.1:8000"
    assert headers["Authorization"] == "Bearer secret"
    assert int(headers["Content-Length"]) == len(body)
    read = parse_infer(of, body, int(headers["Inference-Header-Content-Length"]))
    assert read.rows == batch
    assert read.inputs == tuple(tensors)
    assert read.binary == {"x", "y"}  # answers come as bytes too
    sent = messages()["ModelInferRequest"].FromString(grpc_message(of.name, tensors))
    assert read_infer(of, sent).inputs == tuple(tensors)


@pytest.mark.parametrize("datatype", ["FP32", "INT8", "UINT64", "BOOL", "BYTES"])
def test_tensors_may_be_numbers_in_json(datatype: str) -> None:
    of = contract(datatype)
    tensors = [make_tensor(each["name"], each["datatype"], each["shape"], 2) for each in of.metadata()["inputs"]]
    _, headers, body = split(http_message(TARGET, of.name, tensors, as_json=True))
    assert "Inference-Header-Content-Length" not in headers
    assert parse_infer(of, body).inputs == tuple(tensors)


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(InputError, match="'BF16' has no form in JSON"):
        http_message(TARGET, "m", [make_tensor("x", "BF16", [-1, 2], 1)], as_json=True)
    with pytest.raises(GpuyardError, match="datatype FP8"):
        make_tensor("x", "FP8", [-1], 1)


def test_only_the_first_open_dimension_is_the_batch() -> None:
    assert make_tensor("x", "FP32", [-1, 3, -1], 5).shape == (5, 3, 1)
    assert make_tensor("x", "FP32", [2, -1], 5).shape == (2, 1)
    assert np.frombuffer(make_tensor("x", "FP32", [-1, 3], 2).content, "<f4").tolist() == [0.0] * 6


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("127.0.0.1:9", "http://127.0.0.1:9"),
        ("localhost", "http://localhost:8000"),
        ("https://host/x/", "https://host:443/x"),
        ("grpc://[::1]:5", "grpc://[::1]:5"),
    ],
)
def test_urls_in_any_usual_form(url: str, shown: str) -> None:
    assert str(Target.parse(url)) == shown


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://x:port", "http://x:99999"])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(InputError, match="url"):
        Target.parse(url)

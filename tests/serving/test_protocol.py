"""The protocol as pure functions: what is sent is what is read, and no body raises anything but a refusal."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.serving.frames import (
    Ended,
    FrameKind,
    Frames,
    StartBatch,
    ended_frame,
    frame,
    read_ended,
    read_run,
    run_frame,
)
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.protocol.inference import InferAnswer, InferRequest, Timing
from gpuyard.serving.protocol.json_bodies import format_infer, parse_infer
from gpuyard.serving.protocol.tensors import DATATYPES, Tensor, TensorSpec, bytes_of

PAIR = Contract(
    "pair", "test", (TensorSpec("a", "FP32", (2,)), TensorSpec("b", "BYTES", (1,))),
    (TensorSpec("c", "INT32", (2,)),), 4, {},
)  # fmt: skip

NAMES = ["inputs", "outputs", "name", "datatype", "shape", "data", "parameters", "binary_data_size", "id", "a", "b"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(anything, st.binary(max_size=20), st.none() | st.integers(-2, 60))
def test_no_body_raises_anything_but_a_refusal(content: Any, behind: bytes, length: int | None) -> None:
    with pytest.raises(ProtocolError) as error:
        parse_infer(PAIR, json.dumps(content).encode() + behind, length)
    assert error.value.status is Status.INVALID


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4), st.booleans())
def test_numbers_arrive_as_they_were_sent(numbers: list[float], binary: bool) -> None:
    raw = np.array(numbers, "<f4").tobytes()
    texts = ["x", "yz"]
    behind = b"".join(len(each).to_bytes(4, "little") + each.encode() for each in texts)
    first: dict[str, Any] = {"name": "a", "datatype": "FP32", "shape": [2, 2]}
    second: dict[str, Any] = {"name": "b", "datatype": "BYTES", "shape": [2, 1]}
    if binary:
        first["parameters"], second["parameters"] = {"binary_data_size": len(raw)}, {"binary_data_size": len(behind)}
    else:
        first["data"], second["data"] = [numbers[:2], numbers[2:]], texts
    head = json.dumps({"inputs": [first, second], "id": "7"}).encode()
    found = parse_infer(PAIR, head + raw + behind, len(head)) if binary else parse_infer(PAIR, head)
    assert (found.rows, found.request_id) == (2, "7")
    assert [each.content for each in found.inputs] == [raw, behind]


@pytest.mark.parametrize(
    ("datatype", "inside", "outside"),
    [
        ("UINT8", [0, 255], [-1, 256]), ("INT8", [-128, 127], [-129, 128]), ("INT32", [2**31 - 1], [2**31, -(2**40)]),
        ("INT64", [-(2**63)], [2**63]), ("UINT64", [2**64 - 1], [-1]), ("FP32", [3.4e38, 2**24 + 1], [3.5e38, -1e300]),
        ("FP64", [1e308], []), ("BOOL", [True], [1]),
    ],
)  # fmt: skip
def test_a_number_that_a_datatype_has_no_room_for_is_refused(
    datatype: str, inside: list[float], outside: list[float]
) -> None:
    """It used to become another one: 256 as UINT8 was 0."""
    for each in inside:
        kind = DATATYPES[datatype].numpy
        assert bytes_of("a", datatype, 1, [each]) == np.array([each]).astype(kind).tobytes()
    for each in outside:
        with pytest.raises(ProtocolError, match=f"data is not 1 elements of {datatype}"):
            bytes_of("a", datatype, 1, [each])


@pytest.mark.parametrize("datatype", [name for name, kind in DATATYPES.items() if kind.numpy])
def test_outputs_of_every_datatype(datatype: str) -> None:
    content = np.array([1, 0], DATATYPES[datatype].numpy).tobytes()
    answer = InferAnswer((Tensor("c", datatype, (1, 2), content),), Timing(0.0, 0.0))
    body, length = format_infer(InferRequest("pair", 1, ()), answer)
    assert (json.loads(body)["outputs"][0]["data"], length) == ([1, 0], None)
    body, length = format_infer(InferRequest("pair", 1, (), binary=frozenset("c")), answer)
    assert length is not None
    assert (json.loads(body[:length])["outputs"][0]["parameters"], body[length:]) == (
        {"binary_data_size": len(content)}, content,
    )  # fmt: skip


def test_only_the_outputs_that_are_asked_for() -> None:
    answer = InferAnswer(tuple(Tensor(name, "INT32", (1,), bytes(4)) for name in "cd"), Timing(0.0, 0.0))
    body, _ = format_infer(InferRequest("pair", 1, (), outputs=("d",)), answer)
    assert [each["name"] for each in json.loads(body)["outputs"]] == ["d"]


@given(st.lists(st.lists(st.binary(max_size=9), max_size=3), min_size=1, max_size=5), st.integers(1, 7))
def test_frames_survive_being_cut_anywhere(contents: list[list[bytes]], step: int) -> None:
    sent: list[StartBatch | Ended] = []
    for number, content in enumerate(contents):
        sent += [StartBatch(1, number, 2, 3, None if number % 2 else 0.5, content), Ended(number, 0.25, 0.75, content)]
    data = b"".join(run_frame(each) if isinstance(each, StartBatch) else ended_frame(each) for each in sent)
    assert list(Frames().feed(frame(FrameKind.UNUSABLE))) == [(FrameKind.UNUSABLE, b"")]
    frames, found = Frames(), []
    for start in range(0, len(data), step):
        for kind, body in frames.feed(data[start : start + step]):
            found.append(read_run(body) if kind is FrameKind.RUN else read_ended(body))
    assert found == sent

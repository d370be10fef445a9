"""Clients that are not ours work unchanged, over HTTP and over gRPC, and the server counts as they do."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tests.serving.running import Running
from tritonclient.utils import InferenceServerException

pytestmark = pytest.mark.filterwarnings("ignore")  # of the client, which is not ours


@pytest.fixture(autouse=True)
def _clients_end_here() -> Iterator[None]:
    """What a client complains about when it is forgotten is ignored here, and would not be elsewhere."""
    yield
    gc.collect()


@pytest.fixture(params=["http", "grpc"])
def triton(request: pytest.FixtureRequest) -> Any:
    return {"http": triton_http, "grpc": triton_grpc}[request.param]


@pytest.fixture
def client(server: Running, triton: Any) -> Any:
    port = server.http if triton is triton_http else server.grpc
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as found:
        yield found


def given(triton: Any, rows: int = 1, name: str = "input", datatype: str = "FP32") -> Any:
    content = np.zeros((rows, 1, 28, 28), np.float32)
    found = triton.InferInput(name, content.shape, datatype)
    found.set_data_from_numpy(content)
    return found


def as_json(client: Any, triton: Any, call: str, *args: Any) -> Any:
    method = getattr(client, call)
    return method(*args) if triton is triton_http else method(*args, as_json=True)


def test_health(client: Any) -> None:
    assert (client.is_server_live(), client.is_server_ready(), client.is_model_ready("lenet1")) == (True, True, True)


def test_metadata_says_what_a_model_takes_and_gives(client: Any, triton: Any) -> None:
    assert as_json(client, triton, "get_server_metadata")["name"] == "gpuyard"
    told = as_json(client, triton, "get_model_metadata", "bert")
    assert (told["name"], told["platform"], told["versions"]) == ("bert", "gpuyard_emulated", ["1"])
    [taken], [gives] = told["inputs"], told["outputs"]
    assert (taken["datatype"], [int(each) for each in taken["shape"]]) == ("INT64", [-1, 14])
    assert (gives["datatype"], [int(each) for each in gives["shape"]]) == ("FP32", [-1, 2])


def test_the_configuration_says_that_outputs_are_zeros(client: Any, triton: Any) -> None:
    told = as_json(client, triton, "get_model_config", "lenet1")
    config = told if triton is triton_http else told["config"]
    assert (config["name"], config["max_batch_size"]) == ("lenet1", 32)
    assert config["parameters"]["outputs"]["string_value"].startswith("zeros")


@pytest.mark.parametrize("rows", [1, 3, 32])
def test_rows_come_back_as_zeros_of_the_right_shape(client: Any, triton: Any, rows: int) -> None:
    result = client.infer("lenet1", [given(triton, rows)], request_id="seven")
    output = result.as_numpy("output")
    assert (output.shape, output.dtype, output.any()) == ((rows, 1000), np.dtype("f4"), np.False_)
    told = result.get_response()
    assert (told["id"] if triton is triton_http else told.id) == "seven"


@pytest.mark.parametrize(("sent", "returned"), [(True, True), (True, False), (False, True), (False, False)])
def test_tensors_as_bytes_and_as_json(server: Running, sent: bool, returned: bool) -> None:
    content = np.arange(28, dtype=np.int64).reshape(2, 14)
    tensor = triton_http.InferInput("input", content.shape, "INT64")
    tensor.set_data_from_numpy(content, binary_data=sent)
    wanted = triton_http.InferRequestedOutput("output", binary_data=returned)
    with triton_http.InferenceServerClient(f"127.0.0.1:{server.http}") as client:
        result = client.infer("bert", [tensor], outputs=[wanted])
    assert result.as_numpy("output").tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("packed", ["gzip", "deflate"])
def test_bodies_may_be_packed(server: Running, packed: str) -> None:
    with triton_http.InferenceServerClient(f"127.0.0.1:{server.http}") as client:
        result = client.infer("lenet1", [given(triton_http)], request_compression_algorithm=packed)
    assert result.as_numpy("output").shape == (1, 1000)


def test_elements_one_by_one_over_grpc(server: Running) -> None:
    from gpuyard.serving.protocol.messages import messages

    request = messages()["ModelInferRequest"](model_name="bert", id="x")
    tensor = request.inputs.add(name="input", datatype="INT64", shape=[1, 14])
    tensor.contents.int64_contents.extend(range(14))
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=messages()["ModelInferResponse"].FromString,
        )
        answer = call(request, timeout=60)
    assert (answer.id, answer.raw_output_contents) == ("x", [bytes(8)])


def test_a_stream_answers_every_request_and_goes_on_after_an_error(server: Running) -> None:
    answers: list[tuple[bool, bool]] = []
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
        client.start_stream(lambda result, error: answers.append((result is not None, error is not None)))
        for name in ("lenet1", "nobody", "lenet1"):
            client.async_stream_infer(name, [given(triton_grpc)])
        client.stop_stream()
    assert answers == [(True, False), (False, True), (True, False)]


def test_an_error_in_a_stream_says_whose_it_is(server: Running) -> None:
    from gpuyard.serving.protocol.messages import messages

    requests = [messages()["ModelInferRequest"](model_name="nobody", id=name) for name in ("first", "second")]
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        call = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            request_serializer=lambda each: each.SerializeToString(),
            response_deserializer=messages()["ModelStreamInferResponse"].FromString,
        )
        told = [(each.infer_response.id, "nobody" in each.error_message) for each in call(iter(requests), timeout=60)]
    assert told == [("first", True), ("second", True)]


@pytest.mark.parametrize("wish", ["classification", "shared memory out", "shared memory in"])
def test_wishes_that_cannot_be_granted_are_refused(client: Any, triton: Any, wish: str) -> None:
    tensor, output = given(triton), triton.InferRequestedOutput("output", class_count=3 * (wish == "classification"))
    if wish == "shared memory out":
        output.set_shared_memory("there", 4000)
    elif wish == "shared memory in":
        tensor.set_shared_memory("there", 3136)
    with pytest.raises(InferenceServerException, match=f"{wish.rsplit(' ', 1)[0]}.* is not supported") as error:
        client.infer("lenet1", [tensor], outputs=[output])
    assert error.value.status() == ("400" if triton is triton_http else "StatusCode.INVALID_ARGUMENT")


def test_a_model_that_is_not_there_is_not_ready(client: Any) -> None:
    assert client.is_model_ready("nobody") is False


@pytest.mark.parametrize(
    ("model", "tensor", "status"),
    [
        ("nobody", {}, "NOT_FOUND"),
        ("lenet1", {"name": "image"}, "INVALID_ARGUMENT"),
        ("lenet1", {"rows": 33}, "INVALID_ARGUMENT"),
        ("bert", {}, "INVALID_ARGUMENT"),
    ],
)
def test_wrong_requests_are_told_so(client: Any, triton: Any, model: str, tensor: Any, status: str) -> None:
    with pytest.raises(InferenceServerException) as error:
        client.infer(model, [given(triton, **tensor)])
    codes = {"NOT_FOUND": "404", "INVALID_ARGUMENT": "400"}
    assert error.value.status() == (codes[status] if triton is triton_http else f"StatusCode.{status}")


def test_other_versions_are_not_there(client: Any, triton: Any) -> None:
    assert client.infer("lenet1", [given(triton)], model_version="1").as_numpy("output").shape == (1, 1000)
    with pytest.raises(InferenceServerException):
        client.infer("lenet1", [given(triton)], model_version="2")


def test_models_can_be_unloaded_and_loaded(client: Any, triton: Any) -> None:
    client.unload_model("bert")
    states = {each["name"]: each["state"] for each in models(client, triton)}
    assert (states, client.is_model_ready("bert")) == ({"lenet1": "READY", "bert": "UNAVAILABLE"}, False)
    client.load_model("bert")
    assert {each["state"] for each in models(client, triton)} == {"READY"}
    if triton is triton_http:
        assert [each["reason"] for each in models(client, triton)] == ["", ""]
    with pytest.raises(InferenceServerException):
        client.load_model("nobody")


def models(client: Any, triton: Any) -> Any:
    told = as_json(client, triton, "get_model_repository_index")
    return told if triton is triton_http else told["models"]


def test_a_request_to_an_unloaded_model_is_counted_as_refused(server: Running, client: Any, triton: Any) -> None:
    before = server.outcomes("lenet1")
    client.unload_model("lenet1")
    with pytest.raises(InferenceServerException, match="is unloaded"):
        client.infer("lenet1", [given(triton, 3)])
    client.load_model("lenet1")
    client.infer("lenet1", [given(triton, 3)])
    found = {why: count - before[why] for why, count in server.outcomes("lenet1").items()}
    assert found == {"answered": 1, "refused": 1, "late": 0, "failed": 0}
    assert server.metric("nv_inference_pending_request_count") == 0


def test_counters_are_declared_as_such(server: Running) -> None:
    kinds = [line.split()[2:] for line in server.get("/metrics")[1].decode().splitlines() if "# TYPE" in line]
    triton = {name: kind for name, kind in kinds if name.startswith("nv_inference")}
    assert triton.pop("nv_inference_pending_request_count") == "gauge"
    assert (set(triton.values()), len(triton)) == ({"counter"}, 7)


def test_statistics_count_what_the_client_counts(client: Any, triton: Any) -> None:
    def counts() -> tuple[int, int, int, int]:
        told = as_json(client, triton, "get_inference_statistics", "lenet1")["model_stats"][0]
        inner = told["inference_stats"]
        batches = sum(int(each["batch_size"]) * int(each["compute_infer"]["count"]) for each in told["batch_stats"])
        return int(inner["success"]["count"]), int(told["inference_count"]), batches, int(inner["queue"]["count"])

    client.infer("lenet1", [given(triton)])
    before = counts()
    for rows in (1, 2, 5):
        client.infer("lenet1", [given(triton, rows)])
    assert [b - a for a, b in zip(before, counts(), strict=True)] == [3, 8, 8, 3]

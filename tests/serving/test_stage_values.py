"""What stages hand on: the values of one are the inputs of the next, made to fit, and the last ones' are the answer."""

import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.serving.running import Running, serving

from gpuyard.core.application import Application, Stage
from gpuyard.serving.protocol import tensors  # not by name: TorchScript would take our Tensor for its own
from gpuyard.serving.protocol.contract import Contract
from gpuyard.serving.protocol.stage_tensors import application_contract, fitted


def tensor(values: list[float], datatype: str = "FP32", kind: str = "<f4") -> tensors.Tensor:
    return tensors.Tensor("given", datatype, (1, len(values)), np.array(values, kind).tobytes())


def values(of: tensors.Tensor, kind: str) -> list[float]:
    found: list[float] = np.frombuffer(of.content, kind).tolist()
    return found


def test_values_are_joined_converted_and_cut_or_filled_up() -> None:
    given = [tensor([1.5, 2.5]), tensor([3], "INT64", "<i8")]
    assert values(fitted(given, tensors.TensorSpec("a", "FP32", (2,))), "<f4") == [1.5, 2.5]
    assert values(fitted(given, tensors.TensorSpec("a", "FP64", (2, 2))), "<f8") == [1.5, 2.5, 3, 0]
    assert values(fitted(given, tensors.TensorSpec("a", "INT32", (3,))), "<i4") == [1, 2, 3]
    assert fitted(given, tensors.TensorSpec("a", "FP32", (2, 2))).shape == (1, 2, 2)
    assert fitted([tensor([1.0])], tensors.TensorSpec("a", "BF16", (1,))).content == np.float32(1).tobytes()[:2]


def test_an_application_takes_what_its_first_stages_take_and_gives_what_its_last_ones_give() -> None:
    spec, many = tensors.TensorSpec("x", "FP32", (3,)), tensors.TensorSpec("y", "FP32", (2,))
    contracts = {
        f"app/{name}": Contract(f"app/{name}", "p", (spec,), (many,), most, {})
        for name, most in (("a", 32), ("b", 16), ("c", 32), ("d", 32))
    }
    stages = (
        Stage("a", "m"), Stage("b", "m"), Stage("c", "m", ("a", "b"), 2.5), Stage("d", "m", ("a",)),
    )  # fmt: skip
    found = application_contract(Application("app", 1.0, 1.0, stages), contracts)
    assert [(each.name, each.shape) for each in found.inputs] == [("a/x", (3,)), ("b/x", (3,))]
    assert [(each.name, each.shape) for each in found.outputs] == [("c/y", (3, 2)), ("d/y", (2,))]
    assert found.max_batch == 16


APPLICATION = """\
gpuyard: services/1
applications:
  - name: app
    rate_per_s: 20
    slo_ms: 60000
    stages:
      double: lenet
      less: {model: lenet, after: double, per_request: 2}
      join: {model: lenet, after: [double, less]}
      plus: {model: lenet, after: double, per_request: 2}
"""
CODE = {
    "double": "return 2 * a",
    "less": "assert a.max() < 1000, 'too large'\n    return a[:, :1] - 1",
    "join": "return a",
    "plus": "return a + 1",
}
SIZES = {"double": (3, 3), "less": (2, 1), "join": (6, 6), "plus": (3, 3)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("stages")
    (folder / "app").mkdir()
    for name, code in CODE.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scripted = torch.jit.script(type(name, (torch.nn.Module,), {})())  # a class each: it holds the code
        scripted.define(f"def forward(self, a: Tensor):\n    {code}\n")
        scripted.save(str(folder / "app" / f"{name}.pt"))
        taken, given = ([{"name": "x", "datatype": "FP32", "shape": [size]}] for size in SIZES[name])
        told = {"gpuyard": "model/1", "inputs": taken, "outputs": given}
        (folder / "app" / f"{name}.json").write_text(json.dumps(told))
    (folder / "services.yaml").write_text(APPLICATION)
    with serving(folder / "services.yaml", "--world", "torch-cpu", "--models", str(folder), "--no-replan") as running:
        yield running


def ask(server: Running, rows: list[list[float]]) -> tuple[int, Any]:
    given = {"name": "double/x", "datatype": "FP32", "shape": [len(rows), 3], "data": rows}
    code, body = server.post("/v2/models/app/infer", {"inputs": [given]})
    return code, json.loads(body)


def test_the_values_of_a_stage_are_the_inputs_of_the_next(server: Running) -> None:
    # double: 2, 4, 6 of 1, 2, 3. less takes the first two and gives 2 - 1, both times. join: double, then less twice,
    # then a zero. plus: double + 1, twice.
    code, told = ask(server, [[1, 2, 3], [10, 20, 30]])
    assert code == 200
    outputs = {each["name"]: (each["shape"], each["data"]) for each in told["outputs"]}
    assert outputs["join/x"] == ([2, 6], [2, 4, 6, 1, 1, 0, 20, 40, 60, 19, 19, 0])
    assert outputs["plus/x"] == ([2, 2, 3], [3, 5, 7, 3, 5, 7, 21, 41, 61, 21, 41, 61])
    assert server.statistics("app/less")["inference_count"] == 4


def test_a_stage_that_fails_fails_the_request_and_others_go_on(server: Running) -> None:
    code, told = ask(server, [[501, 0, 0]])
    assert (code, "'app' has no answer: stage 'app/less' failed" in told["error"]) == (500, True)
    assert server.outcomes("app")["failed"] == 1
    assert ask(server, [[1, 1, 1]])[0] == 200

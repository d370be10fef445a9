"""Real models: what a file of torch computes is what clients get, whatever batch their rows ran in."""

import json
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.serving.running import Running, serving

torch = pytest.importorskip("torch")

SERVICES = """\
gpuyard: services/1
services:
  - {service_id: sums, model: lenet, rate_per_s: 100, slo_ms: 30000}
  - {service_id: fails, model: bert, rate_per_s: 20, slo_ms: 30000}
"""


class Sums(torch.nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, a: Any, b: Any) -> Any:
        return a + b, a.sum(1)


def export(path: Path) -> None:
    rows = torch.export.Dim("rows", min=1, max=32)
    example = (torch.zeros(2, 3), torch.zeros(2, 3))
    torch.export.save(torch.export.export(Sums(), example, dynamic_shapes=({0: rows}, {0: rows})), path)


def script(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(torch.nn.Module())
    scripted.define("def forward(self, a: Tensor):\n    assert a.min() >= 0, 'below zero'\n    return a\n")
    scripted.save(str(path))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("models")
    pair = [{"name": name, "datatype": "FP32", "shape": [3]} for name in ("a", "b")]
    tensors: dict[str, dict[str, Any]] = {
        "sums": {"inputs": pair, "outputs": [pair[0], {"name": "total", "datatype": "FP32", "shape": []}]},
        "fails": {"inputs": pair[:1], "outputs": pair[:1]},
    }
    export(folder / "sums.pt2")
    script(folder / "fails.pt")
    for name, told in tensors.items():
        (folder / f"{name}.json").write_text(json.dumps({"gpuyard": "model/1"} | told))
    (folder / "services.yaml").write_text(SERVICES)
    with serving(folder / "services.yaml", "--world", "torch-cpu", "--models", str(folder), "--no-replan") as running:
        yield running


def tensor(name: str, rows: list[list[float]]) -> dict[str, object]:
    return {"name": name, "datatype": "FP32", "shape": [len(rows), 3], "data": rows}


def test_rows_of_many_clients_get_their_own_results(server: Running) -> None:
    def ask(number: int) -> list[list[float]]:
        rows = [[float(number), float(row), 1.0] for row in range(number % 3 + 1)]
        twice = [[2 * value for value in row] for row in rows]
        code, body = server.post("/v2/models/sums/infer", {"inputs": [tensor("b", twice), tensor("a", rows)]})
        assert code == 200
        return [each["data"] for each in json.loads(body)["outputs"]]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(40)))
    for number, (added, totals) in enumerate(answers):
        rows = range(number % 3 + 1)
        assert added == [value for row in rows for value in (3.0 * number, 3.0 * row, 3.0)]
        assert totals == [number + row + 1.0 for row in rows]
    assert server.outcomes("sums")["answered"] == 40


def test_a_model_that_fails_is_told_and_its_process_goes_on(server: Running) -> None:
    code, body = server.post("/v2/models/fails/infer", {"inputs": [tensor("a", [[-1.0, 0, 0]])]})
    assert (code, "below zero" in json.loads(body)["error"]) == (500, True)
    code, body = server.post("/v2/models/fails/infer", {"inputs": [tensor("a", [[1.0, 2, 3]])]})
    assert (code, json.loads(body)["outputs"][0]["data"]) == (200, [1, 2, 3])
    assert server.outcomes("fails") == {"answered": 1, "refused": 0, "late": 0, "failed": 1}


def test_metadata_comes_from_the_folder(server: Running) -> None:
    told = json.loads(server.get("/v2/models/sums")[1])
    assert told["platform"] == "pytorch_libtorch"
    assert [each["name"] for each in told["inputs"] + told["outputs"]] == ["a", "b", "a", "total"]

"""Applications are models of their own, and so are their stages: every client reaches both."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tests.serving.running import LENET, Running, serving
from tritonclient.utils import InferenceServerException

from gpuyard.cli import main
from gpuyard.core.errors import InputError
from gpuyard.core.served_names import check_served_names
from gpuyard.serving.http.paths import parts_of, split_model

pytestmark = pytest.mark.filterwarnings("ignore")  # of the client, which is not ours

APPLICATIONS = """\
gpuyard: services/1
services:
  - {service_id: letters, model: bert, rate_per_s: 10, slo_ms: 20000}
applications:
  - name: bert
    rate_per_s: 10
    slo_ms: 40000
    stages:
      digits: lenet1
      words: {model: bert, after: digits}
"""


DIGITS = {"inputs": [LENET["inputs"][0] | {"name": "digits/input"}]}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("applications")
    (folder / "services.yaml").write_text(APPLICATIONS)
    command = [sys.executable, "-m", "gpuyard", "plan", str(folder / "services.yaml"), "--format", "json"]
    with (folder / "plan.json").open("w") as file:
        subprocess.run(command, stdout=file, check=True)
    return folder / "plan.json"


@pytest.fixture(scope="module")
def stages(plan: Path) -> Iterator[Running]:
    with serving(plan, "--no-replan") as running:
        yield running


def test_a_client_that_is_not_ours_reaches_a_stage(stages: Running) -> None:
    content = np.zeros((1, 1, 28, 28), np.float32)
    given = triton_http.InferInput("input", content.shape, "FP32")
    given.set_data_from_numpy(content)
    with triton_http.InferenceServerClient(f"127.0.0.1:{stages.http}") as client:
        assert client.is_model_ready("bert/digits")
        for version in ("", "1"):
            result = client.infer("bert/digits", [given], model_version=version)
            assert result.get_response()["model_name"] == "bert/digits"
        [told] = client.get_inference_statistics("bert/digits")["model_stats"]
        assert (told["name"], told["inference_stats"]["success"]["count"]) == ("bert/digits", 2)
        client.unload_model("bert/digits")
        ready = [client.is_model_ready(name) for name in ("bert/digits", "bert", "bert/words", "letters")]
        assert ready == [False, False, True, True]
        client.load_model("bert/digits")
        assert client.is_model_ready("bert/digits")


@pytest.mark.parametrize("name", ["bert", "bert/words", "bert/digits"])
@pytest.mark.parametrize("safe", ["", "/"])
def test_a_slash_may_be_quoted_or_not(stages: Running, name: str, safe: str) -> None:
    code, body = stages.get(f"/v2/models/{quote(name, safe=safe)}")
    assert (code, f'"name":"{name}"'.encode() in body) == (200, True)


def test_gpuyard_load_asks_for_applications(stages: Running, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["load", stages.url(""), "--plan", str(plan), "--seconds", "1", "--check", "--format", "csv"])
    assert not end.value.code
    told = capsys.readouterr().out
    assert [line.split(",")[0] for line in told.splitlines()[1:]] == ["letters", "bert", "all"]


@pytest.mark.parametrize("triton", [triton_http, triton_grpc])
def test_a_request_of_an_application_goes_through_its_stages(stages: Running, triton: Any) -> None:
    content = np.zeros((2, 1, 28, 28), np.float32)
    given = triton.InferInput("digits/input", content.shape, "FP32")
    given.set_data_from_numpy(content)
    before = {name: stages.statistics(name)["inference_count"] for name in ("bert", "bert/digits", "bert/words")}
    port = stages.http if triton is triton_http else stages.grpc
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        assert client.is_model_ready("bert")
        result = client.infer("bert", [given])
        assert result.as_numpy("words/output").shape == (2, 2)
        with pytest.raises(InferenceServerException, match="unexpected input 'input'"):
            client.infer("bert", [_input(triton, "input", content)])
    for name, count in before.items():
        assert stages.statistics(name)["inference_count"] == count + 2
    assert stages.outcomes("bert")["answered"] > 0
    waited = stages.statistics("bert")["inference_stats"]
    stage_s = [stages.statistics(name)["inference_stats"]["success"]["ns"] for name in ("bert/digits", "bert/words")]
    assert waited["success"]["ns"] > 0
    assert min(stage_s) > 0


def _input(triton: Any, name: str, content: Any) -> Any:
    found = triton.InferInput(name, content.shape, "FP32")
    found.set_data_from_numpy(content)
    return found


def test_an_application_is_among_the_models(stages: Running) -> None:
    told = json.loads(stages.get("/v2/models/bert")[1])
    assert (told["name"], told["platform"]) == ("bert", "ensemble")
    assert told["inputs"] == [{"name": "digits/input", "datatype": "FP32", "shape": [-1, 1, 28, 28]}]
    assert told["outputs"] == [{"name": "words/output", "datatype": "FP32", "shape": [-1, 2]}]
    listed = json.loads(stages.post("/v2/repository/index", {})[1])
    assert [each["name"] for each in listed if each["state"] == "READY"] == [
        "letters", "bert/digits", "bert/words", "bert",
    ]  # fmt: skip
    config = json.loads(stages.get("/v2/models/bert/config")[1])
    assert config["parameters"]["stages"] == {"string_value": "digits (lenet); words (bert) after digits"}


def test_with_a_stage_unloaded_an_application_answers_nobody(stages: Running) -> None:
    assert stages.post("/v2/repository/models/bert/words/unload", {})[0] == 200
    code, body = stages.post("/v2/models/bert/infer", DIGITS)
    assert (code, json.loads(body)["error"]) == (503, "model 'bert/words' is unloaded")
    assert stages.post("/v2/repository/models/bert/words/load", {})[0] == 200
    assert stages.post("/v2/models/bert/infer", DIGITS)[0] == 200


def test_who_cannot_be_answered_within_the_slo_of_the_whole_is_refused_at_once(plan: Path) -> None:
    content = json.loads(plan.read_text())
    content["applications"][0]["slo_ms"] = 0.001
    tight = plan.with_name("tight.json")
    tight.write_text(json.dumps(content))
    with serving(tight, "--no-replan") as running:
        code, body = running.post("/v2/models/bert/infer", DIGITS)
        assert (code, json.loads(body)["error"]) == (503, "'bert' cannot answer within its SLO: too many wait")
        assert running.outcomes("bert") == {"answered": 0, "refused": 1, "late": 0, "failed": 0}
        assert running.infer("bert/digits") == 200
        assert running.outcomes("bert/words")["answered"] == 0


@pytest.mark.parametrize(
    ("path", "name", "rest"),
    [
        ("a/b/infer", "a/b", ["infer"]),
        ("a%2Fb/infer", "a/b", ["infer"]),
        ("a/infer", "a", ["infer"]),
        ("a/b/versions/1/stats", "a/b", ["versions", "1", "stats"]),
        ("no/body/infer", "no/body", ["infer"]),
        ("infer/ready", "infer", ["ready"]),
    ],
)
def test_the_longest_name_that_there_is_counts(path: str, name: str, rest: list[str]) -> None:
    assert split_model(parts_of(path), {"a", "a/b"}) == (name, rest)


@pytest.mark.parametrize(
    "name", ["stats", "a/infer", "a/versions/1", "a/b/ready/x", "", "b//c", "/b", "b/", "..", "b/."]
)
def test_names_that_no_request_would_reach_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be served") as found:
        check_served_names(["a", "a/b", name, "z"])
    assert found.value.value == name


def test_other_names_are_let_pass() -> None:
    check_served_names(["a", "b/infer", "stats/a", "a/b", "infer", "ready", "a b", "...", "a/b.c", "ü%2F?#"])


def test_a_service_that_would_hide_a_path_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(
        "gpuyard: services/1\nservices:\n  - {service_id: stats, model: lenet1, rate_per_s: 10, slo_ms: 20000}\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["serve", str(path), "--http-port", "0", "--grpc-port", "0"])
    told = capsys.readouterr()
    assert (end.value.code, told.out, "its path is that of something else" in told.err) == (2, "", True)

"""Stages of applications have a slash in their names: every client reaches them all the same."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import tritonclient.http as triton_http
from tests.serving.running import Running, serving

from gpuyard.cli import main
from gpuyard.serving.http.paths import ambiguous, parts_of, split_model

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
        assert (client.is_model_ready("bert/digits"), client.is_model_ready("bert")) == (False, True)
        client.load_model("bert/digits")
        assert client.is_model_ready("bert/digits")


@pytest.mark.parametrize("name", ["bert", "bert/words", "bert/digits"])
@pytest.mark.parametrize("safe", ["", "/"])
def test_a_slash_may_be_quoted_or_not(stages: Running, name: str, safe: str) -> None:
    code, body = stages.get(f"/v2/models/{quote(name, safe=safe)}")
    assert (code, f'"name":"{name}"'.encode() in body) == (200, True)


def test_gpuyard_load_reaches_every_stage(stages: Running, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["load", stages.url(""), "--plan", str(plan), "--seconds", "1", "--check", "--format", "csv"])
    assert not end.value.code
    told = capsys.readouterr().out
    assert [line.split(",")[0] for line in told.splitlines()[1:]] == ["bert", "bert/digits", "bert/words", "all"]


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


def test_names_that_would_hide_a_path_are_found() -> None:
    assert ambiguous(["a", "stats", "b"]) == "stats"
    assert ambiguous(["a", "a/infer"]) == "a/infer"
    assert ambiguous(["a", "b/infer", "stats/a", "a/b"]) is None


def test_a_service_that_would_hide_a_path_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(
        "gpuyard: services/1\nservices:\n  - {service_id: stats, model: lenet1, rate_per_s: 10, slo_ms: 20000}\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["serve", str(path), "--http-port", "0", "--grpc-port", "0"])
    told = capsys.readouterr()
    assert (end.value.code, told.out, "its path is that of something else" in told.err) == (2, "", True)

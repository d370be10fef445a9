"""gpuyard load against gpuyard serve: both tell the same story."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.serving.running import SERVICES, Running, certificate, serving

from gpuyard.cli import main
from gpuyard.core.errors import GpuyardError
from gpuyard.results import load_run
from gpuyard.serving.load.run import LoadedModel, LoadOptions, run_load
from gpuyard.serving.load.target import Target
from gpuyard.serving.settings import TOKEN_VARIABLE
from gpuyard.traces.arrivals import poisson

RATES: dict[str | int, float] = {"lenet1": 60.0, "bert": 30.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = tmp_path_factory.mktemp("served") / "services.yaml"
    services.write_text(SERVICES)
    with serving(services) as running:
        yield running


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("clients", [1, 2])
def test_client_and_server_count_alike(server: Running, protocol: str, clients: int) -> None:
    arrivals = poisson(RATES, 1.0, seed=clients)
    target = Target.parse(f"{protocol}://127.0.0.1:{getattr(server, protocol)}")
    asked = [LoadedModel(name, 1e9) for name in RATES]
    rows = run_load(target, asked, arrivals, 1.0, LoadOptions(clients=clients, check=True)).rows()
    for row in rows[:-1]:
        assert row["sent"] == arrivals.counts[row["model"]]
        assert row["sent"] == row["answered"] + row["refused"] + row["failed"]
        assert row["differences"] == []
        assert row["failed"] == 0
        assert 0 < row["server_mean_ms"] <= row["max_ms"]


def test_rows_of_a_batch_are_inferences(server: Running) -> None:
    arrivals = poisson({"lenet1": 20.0}, 1.0)
    options = LoadOptions(batch=3, check=True)
    row = run_load(Target.parse(server.url("")), [LoadedModel("lenet1", 1e9)], arrivals, 1.0, options).rows()[0]
    assert row["server_inferences"] == 3 * row["answered"]
    assert row["differences"] == []


def test_the_command_keeps_a_run(server: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["load", server.url(""), "--model", "lenet1", "--model", "bert", "--rate", "40", "--slo", "1000000"]
    command += ["--seconds", "1", "--check", "--json-tensors", "--format", "json", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as end:
        main(
            [
                *command,
                "--seconds",
                "1",
                "--check",
                "--json-tensors",
                "--format",
                "json",
                "--out",
                str(tmp_path / "run"),
            ]
        )
    assert not end.value.code
    told: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    run = load_run(tmp_path / "run")
    requests = run["requests"]
    assert requests.height == told[-1]["sent"] == run.summary["requests"]
    assert requests["outcome"].value_counts().rows() == [("served", told[-1]["answered"])]
    assert requests["arrival_s"].is_sorted()
    assert requests["slice"].null_count() == requests["batch"].null_count() == requests.height
    assert (requests["finish_s"] >= requests["arrival_s"]).all()
    assert run.summary["violations"] == 0
    assert run["services"].select("service", "planned_rate", "served").rows() == [
        (row["model"], 40.0, row["answered"]) for row in told[:-1]
    ]


def test_over_tls_with_a_token(services: Path, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    options = ("--tls-cert", str(cert), "--tls-key", str(key))
    arrivals = poisson({"lenet1": 30.0}, 1.0)
    with serving(services, *options, env={TOKEN_VARIABLE: "shown"}) as server:
        for scheme, port in (("https", server.http), ("grpcs", server.grpc)):
            target = Target.parse(f"{scheme}://localhost:{port}", token="shown", authorities=str(cert))
            row = run_load(target, [LoadedModel("lenet1", 1e9)], arrivals, 1.0, LoadOptions(check=True)).rows()[0]
            assert row["within_slo"] == row["sent"] == len(arrivals)
            assert row["differences"] == []
            for wrong in (replace(target, token=""), replace(target, authorities=None)):
                with pytest.raises(GpuyardError):
                    run_load(wrong, [LoadedModel("lenet1")], arrivals, 1.0)
            assert "shown" not in repr(target) + str(target)

"""A run of serving: interrupted it keeps what is done, saved it is what it was, interpreted it is the same."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.simulation.serving.builders import deployed, part, requests, service, steady

from gpuyard.core.errors import InputError
from gpuyard.results import Run, load_run
from gpuyard.simulation.serving.engine import ServingOptions, simulate_serving
from gpuyard.simulation.serving.following import AT_ONCE
from gpuyard.traces.arrivals import poisson

ROOT = Path(__file__).resolve().parents[3]
SERVICES = [service("a", 40), service("b", 60)]
DEPLOYMENT = deployed(SERVICES, [part(50, ("a", 4), ("b", 2)), part(50, ("b", 3))], {"a": steady(4), "b": steady(9, 1)})


def digest(run: Run) -> str:
    return hashlib.sha256("".join(run[name].write_json() for name in sorted(run.tables)).encode()).hexdigest()


def small_run() -> Run:
    return simulate_serving(DEPLOYMENT, poisson({"a": 300.0, "b": 400.0}, 3, 2), ServingOptions(seconds=3))


def test_a_run_is_saved_and_read_as_it_was(tmp_path: Path) -> None:
    run = small_run()
    run.save(tmp_path / "one")
    found = load_run(tmp_path / "one")
    assert {name: found.summary[name] for name in run.summary} == run.summary
    assert found["requests"].equals(run["requests"].cast({"slice": pl.Int32, "batch": pl.Int32}))
    assert found["requests"].height == found["services"]["requests"].sum() == run.summary["requests"]


def test_every_request_has_one_outcome_and_slices_count_them() -> None:
    run = small_run()
    counts = {name: run.summary[name] for name in ("served", "late", "dropped", "refused")}
    assert sum(counts.values()) == run.summary["requests"]
    assert min(counts["served"], counts["dropped"]) > 0
    assert run["slices"]["requests"].sum() == counts["served"] + counts["late"]


def test_interpreted_and_compiled_runs_are_the_same() -> None:
    script = "from tests.simulation.serving.test_engine import digest, small_run; print(digest(small_run()))"
    command = [sys.executable, "-W", "error", "-c", script]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest(small_run())


def test_an_interrupt_keeps_what_is_done() -> None:
    arrivals = poisson({"a": 3000.0, "b": 30.0}, 2.4 * AT_ONCE / 3030, 1)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    run = simulate_serving(DEPLOYMENT, arrivals, progress=stop)
    kept = run["requests"]
    assert AT_ONCE <= kept.height < len(arrivals)
    assert kept["arrival_s"].max() <= run.info["stopped_s"] < arrivals.times_s[-1]
    assert kept.filter(pl.col("outcome") == "served")["finish_s"].null_count() == 0
    whole = simulate_serving(DEPLOYMENT, arrivals)
    ended = pl.col("finish_s") <= run.info["stopped_s"]
    assert kept.filter(ended).equals(whole["requests"].head(kept.height).filter(ended))


def test_requests_of_a_service_that_is_not_deployed_are_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="'c' has requests, but is not deployed"):
        simulate_serving(DEPLOYMENT, requests([service("c", 10)], c=[0.0]))

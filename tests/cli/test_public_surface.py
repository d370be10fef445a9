"""What `import gpuyard` promises."""

import subprocess
import sys
from pathlib import Path

import pytest

import gpuyard

PROMISED = [
    *("Cluster", "GpuyardError", "InputError", "Job", "Options", "Run", "Service", "Workload", "__version__"),
    *("emulate", "generate", "load_run", "read_cluster", "read_workload", "simulate"),
]


def test_the_export_list_is_the_promise_and_every_name_is_there() -> None:
    assert gpuyard.__all__ == PROMISED
    assert dir(gpuyard) == PROMISED
    assert all(getattr(gpuyard, name) is not None for name in PROMISED)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = gpuyard.simulat


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, gpuyard; print([n for n in ('numpy', 'polars', 'numba', 'typer') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_values_texts_and_paths_are_all_accepted(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("0,res18,0,4000,1\n1,gnmt,10,90000,2\n")
    by_text = gpuyard.simulate("2x8", str(trace), "srtf+tune")
    by_value = gpuyard.simulate(gpuyard.Cluster.parse("2x8"), gpuyard.read_workload(trace), "srtf+tune")
    assert by_text.jobs.equals(by_value.jobs)
    saved = by_text.save(tmp_path / "run")
    assert saved.path is not None
    assert gpuyard.load_run(saved.path).jobs.equals(by_text.jobs)


def test_jobs_may_be_written_in_python() -> None:
    jobs = [gpuyard.Job("a", 0.0, 1, "res18", duration_s=3600), gpuyard.Job("b", 60.0, 4, "gnmt", duration_s=7200)]
    run = gpuyard.simulate("1x8", gpuyard.Workload.from_jobs(jobs), "las+proportional", gpuyard.Options(round_s=60))
    assert run.summary["jobs"] == 2
    assert run.summary["unfinished"] == 0

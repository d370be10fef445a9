"""A run says which GPU types nobody knows and which speeds nobody measured, and otherwise nothing of the kind."""

from pathlib import Path

import pytest
from tests.builders import job, run, workload, zoo
from tests.results.builder import three_jobs

from gpuyard.core.workload import Job
from gpuyard.profiles import load_zoo
from gpuyard.reports.sections import warnings
from gpuyard.simulation.options import Options
from gpuyard.simulation.speed_notes import speed_notes
from gpuyard.traces import read_cluster
from gpuyard.traces.synthetic import generate

PAIR = (job(0, "res50", iterations=1000), job(1, "gnmt", iterations=1000))
"""Of res50 speeds on K80 and A100 are measured, of gnmt none are."""

ESTIMATES = "estimated and not measured: the speeds "
HOW = " (gpuyard profiles show MODEL)"
NAMELESS = "of GPU type Nope only the name is known: gnmt, res50 count as fast there as elsewhere"


def noted(types: str, *jobs: Job, recorded_on: str | None = None) -> list[str]:
    groups = "+".join(f"1x4:type={each}" for each in types.split("+"))
    return speed_notes(workload(*jobs), read_cluster(groups), zoo(), recorded_on)


@pytest.mark.parametrize(
    ("types", "says"),
    [
        ("V100", []),
        ("Tesla-V100", []),
        ("V100+A100", [f"{ESTIMATES}of gnmt on A100{HOW}"]),
        ("H100", [f"{ESTIMATES}of gnmt, res50 on H100{HOW}"]),
        ("K80+H100", [f"{ESTIMATES}of gnmt, res50 on H100, of gnmt on K80{HOW}"]),
        ("H100+K80", [f"{ESTIMATES}of gnmt, res50 on H100, of gnmt on K80{HOW}"]),
        ("Nope", [f"{NAMELESS}. A profile file can state its gpu_speed"]),
        ("H10", [f"{NAMELESS.replace('Nope', 'H10')}. Did you mean 'H100' or 'A10' or 'V100'?"]),
        ("Nope+A100", [f"{NAMELESS}. A profile file can state its gpu_speed", f"{ESTIMATES}of gnmt on A100{HOW}"]),
    ],
)
def test_a_run_says_what_is_not_known_of_its_gpus(types: str, says: list[str]) -> None:
    assert noted(types, *PAIR) == says


def test_many_models_and_types_are_counted() -> None:
    jobs = generate(jobs=200)
    cluster = read_cluster("+".join(f"1x4:type={each}" for each in ("H100", "T4", "P4", "L4", "A10")))
    [note] = speed_notes(jobs, cluster, zoo())
    count = len(jobs.models)
    each = f"of {count} of {count} models on"
    assert note == f"{ESTIMATES}{each} A10, {each} H100, {each} L4, on 2 further GPU types{HOW}"


def test_a_type_that_no_job_may_use_is_not_spoken_of() -> None:
    assert noted("V100+H100", job(0, iterations=1000, types="V100")) == []


def test_a_type_on_which_durations_were_recorded_is() -> None:
    assert noted("V100", job(0, iterations=1000), recorded_on="H100") == []
    assert noted("V100", job(0, hours=1), recorded_on="H100") == [f"{ESTIMATES}of res50 on H100{HOW}"]


def test_a_recorded_time_that_no_speed_enters_needs_no_estimate() -> None:
    """Whatever the GPU, a job of which only its time is known takes this time there."""
    assert noted("H100", job(0, "generic", hours=1)) == []
    assert noted("H100+V100", job(0, "generic", hours=1)) == [f"{ESTIMATES}of generic on H100{HOW}"]


def test_what_a_profile_states_is_known(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    model = (
        "{iteration_s: 1.0, grid: {cpus: [1], memory_gb: [1]}, throughput: [[1]], gpu_speed: {Nope: 2.0, H100: 3.0}}"
    )
    file.write_text(f"models:\n  mine: {model}\n", encoding="utf-8")
    jobs = workload(job(0, "mine", iterations=1000))
    for types in ("Nope", "H100", "Nope+H100+V100"):
        groups = "+".join(f"1x4:type={each}" for each in types.split("+"))
        assert speed_notes(jobs, read_cluster(groups), load_zoo([file])) == []


def test_runs_carry_these_notes_in_equal_words() -> None:
    cluster = read_cluster("1x4:type=Nope")
    found = [run(cluster, list(PAIR)).info["notes"] for _ in range(2)]
    assert found == [[f"{NAMELESS}. A profile file can state its gpu_speed"]] * 2
    assert run("1x8", list(PAIR)).info["notes"] == []


def test_the_published_program_knows_one_speed_and_so_makes_no_such_note() -> None:
    faithful = run(read_cluster("1x8:type=H100"), list(PAIR), options=Options(faithful=True))
    assert not [note for note in faithful.info["notes"] if "speeds" in note]


def test_the_report_shows_what_runs_say_of_themselves() -> None:
    assert warnings([three_jobs()]) == ""
    shown = warnings([three_jobs(notes=["of GPU type <b> only the name is known. Did you mean 'A10'?"])])
    assert "of GPU type &lt;b&gt; only the name is known. Did you mean" in shown
    assert shown.endswith("?</p></div>\n")

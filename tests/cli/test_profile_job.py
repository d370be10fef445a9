"""`gpuyard profile job` from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpuyard.cli import main
from gpuyard.profiles import load_zoo
from gpuyard.profiling.optimistic import Measurement
from gpuyard.profiling.point import PointRunner

STEPS, STEP_BYTES = 32, 1e6
Run = Callable[..., tuple[int, str, str]]


class Points:
    """Stands where a command would run: 10 ms on the GPU, 60 ms of one CPU, 40 MB/s; it can be interrupted."""

    def __init__(self) -> None:
        self.measured: list[int | None] = []
        self.interrupt_at: int | None = 0

    def measure(self, cpus: int, *, synthetic: bool = False) -> Measurement:
        if cpus == self.interrupt_at:
            raise KeyboardInterrupt
        self.measured.append(None if synthetic else cpus)
        if synthetic:
            return Measurement((0.01, 0.01), STEPS)
        whole = STEPS * STEP_BYTES
        return Measurement((max(0.01, 0.06 / cpus),) * 2, STEPS, STEP_BYTES, whole, whole / 40e6, whole, whole / 1e10)


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Points:
    points = Points()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PointRunner, "__call__", lambda _, cpus, **how: points.measure(cpus, **how))
    return points


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["profile", *words])
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out, printed.err

    return run


JOB = ("job", "--cpus", "8", "--out", "mine.yaml")
COMMAND = ("--", "python", "train.py")


def test_a_profile_is_written_that_the_zoo_reads(points: Points, run: Run) -> None:
    code, out, err = run(*JOB, *COMMAND)
    assert code == 0
    assert points.measured == [None, 8, 4, 2, 6]
    profile = load_zoo([Path("mine.yaml")]).profile("train")
    assert profile.iteration_s == pytest.approx(0.02)
    assert profile.fed_speed(8, 0.032) == pytest.approx(2)
    assert "2 CPUs: 30 ms a step (spread 0.0 %)" in err
    assert "written to mine.yaml" in err
    assert "disk            40 MB/s (spread 0.0 %)" in out
    assert not Path("mine.yaml.points").exists()


def test_the_matrix_can_be_had_as_json(points: Points, run: Run) -> None:
    _, out, _ = run(*JOB, "--format", "json", *COMMAND)
    rows = {(row["cpus"], row["cached_pct"]): row for row in json.loads(out)}
    assert rows[8, 100]["origin"] == "measured"
    assert rows[3, 100]["origin"] == "computed"
    assert (rows[8, 10]["origin"], rows[8, 10]["spread_pct"]) == ("computed", None)
    assert rows[8, 10]["step_ms"] == pytest.approx(22.51)
    assert rows[8, 10]["storage_mbps"] == pytest.approx(40)


def test_an_interrupted_profile_goes_on_from_the_points_that_it_has(points: Points, run: Run) -> None:
    points.interrupt_at = 4
    code, _, err = run(*JOB, *COMMAND)
    assert code == 130
    assert "interrupted: 2 of at most 6 points are measured and kept; the same command goes on from there" in err
    assert not Path("mine.yaml").exists()
    points.interrupt_at = 0
    code, _, err = run(*JOB, *COMMAND)
    assert code == 0
    assert points.measured == [None, 8, 4, 2, 6]
    assert "8 CPUs: 10 ms a step (spread 0.0 %), kept from before" in err
    assert Path("mine.yaml").exists()


@pytest.mark.parametrize("other", [["--steps", "7"], ["--repeats", "9"], ["--fresh"]])
def test_points_that_were_measured_in_another_way_do_not_count(points: Points, run: Run, other: list[str]) -> None:
    points.interrupt_at = 4
    run(*JOB, *COMMAND)
    points.interrupt_at = 0
    run(*JOB, *other, *COMMAND)
    assert points.measured == [None, 8, None, 8, 4, 2, 6]


def test_points_of_another_command_do_not_count(points: Points, run: Run) -> None:
    points.interrupt_at = 4
    run(*JOB, *COMMAND)
    points.interrupt_at = 0
    run(*JOB, "--", "python", "other.py")
    assert points.measured == [None, 8, None, 8, 4, 2, 6]


def test_where_nothing_was_measured_nothing_is_kept(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*JOB, "--", "no-such-program")
    assert (code, err.splitlines()[-1]) == (
        2, "error: field command: 'no-such-program' cannot be started: No such file or directory",
    )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_damaged_points_are_told(points: Points, run: Run) -> None:
    points.interrupt_at = 4
    run(*JOB, *COMMAND)
    content = json.loads(Path("mine.yaml.points").read_text())
    content["points"]["8"]["step_s"] = [0]
    Path("mine.yaml.points").write_text(json.dumps(content))
    code, _, err = run(*JOB, *COMMAND)
    assert (code, err.splitlines()[-1]) == (2, "error: mine.yaml.points: is damaged. --fresh measures all points again")


def test_a_second_job_is_added_and_measured_again_it_takes_its_own_place(points: Points, run: Run) -> None:
    run(*JOB, *COMMAND)
    run(*JOB, "--name", "other", *COMMAND)
    run(*JOB, "--name", "other", "--data", "64GB", *COMMAND)
    models = yaml.safe_load(Path("mine.yaml").read_text())["models"]
    assert list(models) == ["train", "other"]
    assert models["other"]["grid"]["memory_gb"][-1] == 64


def test_a_model_of_the_zoo_makes_way(points: Points, run: Run) -> None:
    run(*JOB, "--name", "ResNet-50", *COMMAND)
    assert load_zoo([Path("mine.yaml")]).profile("res50").iteration_s == pytest.approx(0.02)


def test_the_gpu_type_is_that_of_the_profile(points: Points, run: Run) -> None:
    run(*JOB, "--gpu-type", "a100", *COMMAND)
    assert load_zoo([Path("mine.yaml")]).profile("train").gpu_type == "A100"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cpus", "2"], "field cpus: 2 must be 3 or more"),
        (["--cpus", "99999"], "Invalid value for '--cpus'"),
        (["--repeats", "0"], "Invalid value for '--repeats'"),
        (["--steps", "-5"], "Invalid value for '--steps'"),
        (["--timeout", "0"], "field timeout: '0' must be from 1 s to a day"),
        (["--timeout", "nan"], "field timeout: 'nan' is not a number"),
        (["--timeout", "1000d"], "must be from 1 s to a day"),
        (["--data", "0GB"], "field data: '0GB' must be above 0"),
        (["--data", "much"], "field data: 'much' is not a number"),
        (["--name", " "], "field name: ' ' must not be blank"),
        (["--gpu-type", ""], "field gpu_type: '' must not be blank"),
        (["--picture", "mine.gif"], "must end with .png or .svg"),
        (["--picture", "nowhere/mine.png"], "is in a folder that does not exist"),
        (["--synergy", "there.txt"], "must be a folder, or the name of one to make"),
        (["--out", "there.txt"], "there.txt"),
        (["--out", "there.txt/mine.yaml"], "there.txt/"),
        (["--out", "."], "cannot be read as a profile file"),
        (["--out", "/dev/null"], "is not a regular file"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_is_measured(
    points: Points, run: Run, words: list[str], said: str
) -> None:
    Path("there.txt").write_text("mine, and no profile")
    code, _, err = run(*JOB, *words, *COMMAND)
    assert code == 2
    assert said in err
    assert not points.measured
    assert [path.name for path in Path().iterdir()] == ["there.txt"]


def test_pictures_and_synergys_files_are_written_too(points: Points, run: Run) -> None:
    run(*JOB, "--picture", "mine.png", "--synergy", "synergy", *COMMAND)
    assert Path("mine.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in Path("synergy").iterdir()) == [
        *(f"PERF_train_cpu_{cpus}.txt" for cpus in (2, 4, 6, 8)), "profile.json",
    ]  # fmt: skip
    told = json.loads(Path("synergy/profile.json").read_text())
    assert told[0]["2"] == pytest.approx(0.03)
    assert told[1]["2"]["100"] == pytest.approx(0.03 * STEPS)
    assert told[1]["8"]["0"] == pytest.approx(0.025 * STEPS)
    assert (told[2]["8"]["0"], told[2]["8"]["100"]) == (pytest.approx(40), 0)
    ours = load_zoo([Path("mine.yaml")]).profile("train")
    for words in (["synergy/profile.json"], [str(path) for path in Path("synergy").glob("PERF*")]):
        code, _, err = run("synergy", *words, "--out", "again.yaml", "--name", "again")
        assert code == 0, err
        again = load_zoo([Path("again.yaml")]).profile("again")
        assert again.cpu_grid.tolist() == [2, 4, 6, 8]
        for cpus in (2, 4, 6, 8):  # between them Synergy's has fewer points
            ours_s, theirs_s = (each.iteration_s / each.fed_speed(cpus, 100) for each in (ours, again))
            assert theirs_s == pytest.approx(ours_s)

"""Synergy's profile.json and PERF files: read, written, and read again."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.profiles import load_zoo
from gpuyard.profiles.files import parse
from gpuyard.profiles.synergy_files import PERCENTS, Perf, SynergyProfile, of_perf_files, parse_perf, parse_synergy

DATA_GB, DISK_MBPS, SAMPLES, BATCH = 140, 500.0, 1281167, 512
ITERATION_S = {24: 0.6, 12: 0.61, 6: 1.2}


def as_published(memory_gbps: float = 10.0) -> list[dict[str, Any]]:
    """What the original computes, by the formulas of its profiler: epochs, and the storage that they need."""
    steps = SAMPLES // BATCH
    epochs: dict[str, dict[str, float]] = {}
    storage: dict[str, dict[str, float]] = {}
    for cpus, iteration_s in ITERATION_S.items():
        cached_s = iteration_s * steps
        epochs[str(cpus)], storage[str(cpus)] = {"100": cached_s}, {"100": 0}
        for percent in range(0, 100, 10):
            cache_gb = percent / 100 * DATA_GB
            hit_s, disk_mb = cache_gb / memory_gbps, (DATA_GB - cache_gb) * 1024
            bound = hit_s + disk_mb / DISK_MBPS > cached_s
            epochs[str(cpus)][str(percent)] = hit_s + disk_mb / DISK_MBPS if bound else cached_s
            storage[str(cpus)][str(percent)] = DISK_MBPS if bound else disk_mb / (cached_s - hit_s)
    return [{str(cpus): seconds for cpus, seconds in ITERATION_S.items()}, epochs, storage]


def test_a_profile_json_is_a_profile_file_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "job-res18_03-Nov-2021-(10:11:12.123456)"
    folder.mkdir()
    (folder / "profile.json").write_text(json.dumps(as_published()))
    profile = load_zoo([folder / "profile.json"]).profile("job-res18")
    assert profile.cpu_grid.tolist() == [6, 12, 24]
    assert profile.memory_grid[-1] == pytest.approx(DATA_GB)
    # 12 CPUs with all of it cached take 0.61 s; nothing cached: 140 GB at 500 MB/s in 2502 iterations
    assert profile.iteration_s / profile.fed_speed(12, 140) == pytest.approx(0.61)
    assert profile.iteration_s / profile.fed_speed(12, 0) == pytest.approx(0.61)  # 287 s of fetching, 1526 of steps
    assert profile.storage_mbps == pytest.approx(140 * 1024 / (0.6 * 2502))
    assert profile.fed_speed(3, 62.5) == pytest.approx(1)


def test_a_slow_disk_is_the_limit_where_too_little_is_cached() -> None:
    slow = [dict(part) for part in as_published()]
    for cpus in ("24", "12", "6"):
        for percent in range(0, 100, 10):
            fetch_s = (100 - percent) / 100 * DATA_GB * 1024 / 50
            if fetch_s > slow[1][cpus]["100"]:
                slow[1][cpus][str(percent)], slow[2][cpus][str(percent)] = fetch_s, 50
    profile = parse(json.dumps(slow), "slow.json").profiles["slow"]
    assert profile.memory_grid.tolist() == pytest.approx([0.14, *range(14, 154, 14)])
    assert profile.iteration_s / profile.fed_speed(24, 0) == pytest.approx(140 * 1024 / 50 / 2502)
    assert profile.iteration_s / profile.fed_speed(24, 84) == pytest.approx(0.6)


def test_it_is_written_as_it_was_read() -> None:
    text = json.dumps(as_published())
    again = parse_synergy(json.loads(parse_synergy(json.loads(text), "x").dump()), "x")
    assert again == parse_synergy(json.loads(text), "x")
    assert json.loads(again.dump()) == json.loads(text)


def test_cpus_that_were_halved_as_fractions_are_whole() -> None:
    content = json.loads(json.dumps(as_published()).replace('"12":', '"12.0":'))
    assert set(parse_synergy(content, "x").iteration_s) == {24, 12, 6}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "is neither a profile file nor"),
        ([{}, {}, {}], "is neither a profile file nor"),
        ([{"4": 1.0}, {"4": {"100": 9.0}}, {"8": {"100": 0}}], "differ in their CPUs"),
        ([{"4": 1.0}, {"4": {"100": 9.0, "0": 9.0}}, {"4": {"100": 0}}], "differ in their CPUs or percentages"),
        ([{"4": 1.0}, {"4": {"0": 9.0}}, {"4": {"0": 0}}], "no epoch with 100 percent"),
        ([{"4": -1.0}, {"4": {"100": 9.0}}, {"4": {"100": 0}}], "field 0.4: -1.0 must be a positive number"),
        ([{"4": True}, {"4": {"100": 9.0}}, {"4": {"100": 0}}], "field 0.4: True must be a positive number"),
        ([{"2.5": 1.0}, {"2.5": {"100": 9.0}}, {"2.5": {"100": 0}}], "'2.5' is not a whole number of CPUs"),
        ([{"4": 1.0}, {"4": {"100": "soon"}}, {"4": {"100": 0}}], "field 1.4.100: 'soon' must be a positive number"),
        ([{"4": 1.0}, {"4": {"100": 1, "200": 1}}, {"4": {"100": 0, "200": 0}}], "200 is more than 100 percent"),
        ([{"4": 1.0}, {"4": 9.0}, {"4": {"100": 0}}], "field 1.4: 9.0 must be an object by percentages"),
        ([{"4": 1.0}, {"4": {"100": 9.0}}, {"4": {"100": -1}}], "field 2.4.100: -1 must be a number, 0 or more"),
    ],
)
def test_what_is_wrong_with_a_profile_json_is_told(content: object, said: str) -> None:
    with pytest.raises(InputError, match=said) as told:
        parse(json.dumps(content), "profile.json")
    assert "profile.json" in str(told.value)


@given(
    iteration_s=st.floats(1e-4, 100), iteration=st.integers(0, 10**9), epoch=st.integers(0, 10**6),
)  # fmt: skip
def test_a_perf_file_is_read_as_it_was_written(iteration_s: float, iteration: int, epoch: int) -> None:
    perf = Perf(iteration_s, iteration, epoch)
    assert parse_perf(perf.dump(), "x") == perf


def test_a_perf_file_of_a_program_that_told_its_time_only() -> None:
    assert parse_perf("0.25\n", "x") == Perf(0.25, 0, 0)


@pytest.mark.parametrize(
    ("text", "said"), [("", "is empty"), ("-1\n", "positive"), ("nan\n", "positive"), ("x", "'x'")]
)
def test_what_is_wrong_with_a_perf_file_is_told(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_perf(text, "PERF_x.txt")


def test_perf_files_of_a_sweep_are_a_profile_without_memory() -> None:
    paths = [Path("PERF_job-res18_cpu_12.txt"), Path("PERF_job-res18_cpu_6.0.txt"), Path("PERF_job-res18_cpu_3.txt")]
    job, found = of_perf_files(paths, ["0.5\n50\n0\n", "1.0\n50\n0\n", "2.0\n"])
    assert job == "job-res18"
    entry = found.entry()
    assert entry["grid"] == {"cpus": [3, 6, 12], "memory_gb": [1.0]}
    assert (entry["iteration_s"], entry["throughput"]) == (2.0, [[1.0], [2.0], [4.0]])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["PERF_job.txt"], "which says what was measured"),
        (["notes.txt"], "must be named PERF_"),
        (["PERF_a_cpu_1.txt", "PERF_b_cpu_2.txt"], "belongs to another job than a"),
    ],
)
def test_files_that_are_no_sweep_are_told(names: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        of_perf_files([Path(name) for name in names], ["1.0"] * len(names))


def test_percentages_are_those_of_the_original() -> None:
    assert PERCENTS == (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    assert isinstance(parse_synergy(as_published(), "x"), SynergyProfile)

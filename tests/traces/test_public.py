"""Every public job trace at hand is read, and no row of it is lost without a note."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.workload import Workload
from gpuyard.traces import READERS, Source, find_reader, read
from gpuyard.traces.readers.gavel_rates import V100_RATES
from gpuyard.traces.readers.pollux import RUN_TIME_S

from .same import texts

ITP = dict(enumerate((1595, 5778, 3011, 15802, 3629, 2396, 12699, 13047, 11134, 260), 1))
OPENB = {
    "cpu0": 7064, "cpu037": 7336, "cpu050": 7439, "cpu072": 7608, "cpu100": 7853, "cpu200": 8832, "cpu235": 9240,
    "cpu250": 9420, "cpu300": 10094, "multigpu20": 8324, "multigpu30": 8508, "multigpu40": 8746, "multigpu50": 9061,
    **{f"gpushare{share}": 8152 for share in (20, 40, 60, 80, 100)},
    **{f"gpuspec{share}": 8152 for share in ("05", "10", "20", "25", "33")},
}  # fmt: skip
GAVEL = {
    "0e4a51": 1181, "103959": 986, "11cb48": 2000, "23dbec": 9, "2869ce": 533, "51b7ef": 18, "6214e9": 2000,
    "6c71a0": 2000, "795a4c": 3, "7f04ca": 972, "925e2b": 4, "b436b2": 2000, "e13805": 607, "ed69ec": 951,
    "ee9e8c": 2000,
}  # fmt: skip
TESTBED = {
    "artifact_evaluation": 15, "debug": 14, "debug_v2": 14, "highmem_test": 8, "max_min_fairness": 96,
    "medium_test": 20, "minimize_makespan": 100, "small_test": 20,
}  # fmt: skip
POLLUX = {"": 160, "-0.5": 80, "-1.5": 240, "-2.0": 320, "-realistic": 160}

ROWS = {
    "philly/philly_pollux.csv.gz": ("philly-pollux", 82247),
    "philly/philly_gavel_distribution.csv.gz": ("philly-gavel", 33192),
    **{f"philly/chronus_philly_{kind}.csv.gz": ("philly-chronus", 30940) for kind in ("SLO", "MIX1", "MIX2")},
    "philly/elasticflow_philly_103959.csv": ("philly-elasticflow", 876),
    **{f"itp/raw/cluster{n:02}.csv.gz": ("itp", rows) for n, rows in ITP.items()},
    **{f"itp/elasticflow/cluster{n:02}.csv.gz": ("itp", rows) for n, rows in ITP.items()},
    "itp/elasticflow/195job.csv.gz": ("itp", 195),
    "openb2023/openb_pod_list_default.csv": ("openb", 8152),
    **{f"openb2023/openb_pod_list_{mix}.csv.gz": ("openb", rows) for mix, rows in OPENB.items()},
    **{f"muri/trace{n}.csv.gz": ("muri", rows) for n, rows in enumerate((1494, 5755, 992, 2638), 1)},
    **{f"muri/job_type_{n}.csv.gz": ("muri", 992) for n in (1, 2, 3, 4)},
    **{f"gavel/msr-seed0/{vc}.trace.gz": ("gavel", rows) for vc, rows in GAVEL.items()},
    **{f"gavel/physical_cluster/{name}.trace": ("gavel", rows) for name, rows in TESTBED.items()},
    "tiresias/60_job.csv": ("tiresias", 60),
    **{
        f"pollux/workloads{kind}/workload-{n}.csv": ("pollux", rows)
        for kind, rows in POLLUX.items()
        for n in range(1, 9)
    },
}
"""Rows of each file by the table of the data's README (by `wc -l` where it gives only a range or a sum)."""


def left_out(workload: Workload) -> int:
    return sum(int(count) for note in workload.notes for count in re.findall(r"^(\d+) left out", note))


@pytest.mark.parametrize("path", ROWS)
def test_every_row_is_a_job_or_in_a_note(shared_data: Path, path: str) -> None:
    name, rows = ROWS[path]
    source = Source.open(shared_data / "traces" / path)
    assert [reader.name for reader in READERS if reader.matches(source.head)] == [name]
    workload = read(shared_data / "traces" / path)
    assert len(workload) + left_out(workload) == rows
    assert workload.arrival_s[0] == 0 or "arrivals are drawn" in " ".join(workload.notes)
    assert (np.diff(workload.arrival_s) >= 0).all()
    assert (workload.duration_s > 0).all()


def test_shockwave(shared_data: Path) -> None:
    files = sorted((shared_data / "traces" / "shockwave").glob("*.trace.gz"))
    workloads = [read(file) for file in files]
    assert [len(workload) for workload in workloads] == [120, 220, 460, 900, 900]
    assert workloads[0].duration_s[:3].tolist() == [1418, 3338, 13462]
    assert texts(workloads[0], "model")[:3] == ["lstm", "res18", "res50"]


def test_all_files_at_hand_are_covered_or_known_to_be_no_job_trace(shared_data: Path) -> None:
    folder = shared_data / "traces"
    others = re.compile(r"alibaba-other|azure-llm|yarn-gput|node_list|LICENSE|README|shockwave")
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {file for file in files if not others.search(file)} == set(ROWS)
    for file in files:
        if others.search(file) and "shockwave" not in file:
            with pytest.raises(InputError, match="is in none of the formats"):
                find_reader(Source.open(folder / file))


@pytest.mark.parametrize(
    ("name", "jobs"),
    [("deploy_dynamic_100jobs", 100), ("deploy_static_100jobs", 100), ("golden_trace_multigpu_300jobs", 300)],
)
def test_synergys_own_traces(shared_data: Path, name: str, jobs: int) -> None:
    file = shared_data / "synergy" / f"{name}.csv"
    want = pl.read_csv(file, comment_prefix="#")
    got = read(file)
    assert len(got) == jobs
    assert got.iterations.tolist() == want["total_iterations"].to_list()
    assert got.arrival_s.tolist() == want["arrival_s"].to_list()
    assert got.gpus.tolist() == want["gpus"].to_list()
    assert texts(got, "model") == want["model"].to_list()


def test_philly_as_flattened_by_pollux(shared_data: Path) -> None:
    workload = read(shared_data / "traces/philly/philly_pollux.csv.gz")
    assert np.median(workload.duration_s) == 1144
    assert round(workload.duration_s.mean()) == 13136
    assert round(float(workload.duration_s @ workload.gpus) / 3.6e6) == 978
    assert len(workload.tenants) == 15
    assert "time counts from the first job, 2017-09-04 10:30:41" in workload.notes


def test_openb_pods_keep_fractions_types_and_demands(shared_data: Path) -> None:
    workload = read(shared_data / "traces/openb2023/openb_pod_list_gpuspec33.csv.gz")
    second = workload.job(1)
    assert (second.job_id, second.gpus, second.cpus, second.memory_gb) == ("openb-pod-0001", 0.46, 6, 12 * 1.073741824)
    assert (second.arrival_s, second.duration_s) == (427061, 12902960 - 427061)
    assert sum(kind == "V100M16|V100M32" for kind in texts(workload, "gpu_types")) == 141 + 22
    assert "1088 left out: CPU-only pods" in workload.notes
    plain = read(shared_data / "traces/openb2023/openb_pod_list_default.csv")
    assert (int((plain.gpus < 1).sum()), int((plain.gpus > 1).sum())) == (3078 - 1, 75)  # one of no duration
    assert plain.gpu_types == ("",)


def test_openb_pods_run_from_when_they_were_scheduled(tmp_path: Path) -> None:
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
    (tmp_path / "pods.csv").write_text(head + "queued,6000,1024,1,1000,100,700,350\nnever,6000,1024,1,1000,120,700,\n")
    workload = read(tmp_path / "pods.csv")
    assert (workload.arrival_s.tolist(), workload.duration_s.tolist()) == ([0, 20], [350, 580])
    assert "1 pods were never scheduled: their duration counts from creation" in workload.notes


def test_muri_counts_in_milliseconds(shared_data: Path) -> None:
    job = read(shared_data / "traces/muri/trace3.csv.gz").job(1)
    assert (job.arrival_s, job.duration_s, job.gpus, job.model) == (1456, 926133, 4, "res18")


def test_gavels_first_traces_give_phillys_run_times_back(shared_data: Path) -> None:
    """ElasticFlow has the run times of the jobs of one virtual cluster that Gavel has as steps."""
    steps = read(shared_data / "traces/gavel/msr-seed0/103959.trace.gz")
    times = read(shared_data / "traces/philly/elasticflow_philly_103959.csv")
    keys = [list(zip(jobs.arrival_s.tolist(), jobs.gpus.tolist(), strict=True)) for jobs in (steps, times)]
    single = {key for key in keys[1] if keys[0].count(key) == keys[1].count(key) == 1}
    left, right = ({key: value for key, value in zip(k, jobs.duration_s.tolist(), strict=True) if key in single}
                   for k, jobs in zip(keys, (steps, times), strict=True))  # fmt: skip
    assert len(single) > 700
    near = [math.isclose(left[key], right[key], rel_tol=1e-4, abs_tol=4) for key in single]
    assert np.mean(near) > 0.98  # a few share their second and size with a job that only one of the two has


def test_gavels_rates_are_those_of_its_table(shared_data: Path) -> None:
    table = json.loads((shared_data / "profiles/gavel/simulation_throughputs.json").read_text())["v100"]
    ours = {str((name, size)): rate for name, sizes in V100_RATES.items() for size, rate in sizes.items()}
    assert ours == pytest.approx({key: value["null"] for key, value in table.items()}, rel=1e-5)
    minutes = read(shared_data / "traces/gavel/physical_cluster/minimize_makespan.trace").duration_s / 60
    assert (round(minutes.min(), 1), round(minutes.max(), 1)) == (60.0, 300.0)


def run_time_s(folder: Path, replicas: int, batch: int) -> float:
    """The rule by which RUN_TIME_S was derived."""
    nodes, rest = divmod(replicas, 4)
    if replicas <= 16:
        packed = int((str(rest) if rest else "") + "4" * nodes)
        steps = pl.read_csv(folder / "placements.csv").filter(pl.col("placement") == packed)
    else:
        shape = (pl.col("num_replicas") == replicas) & (pl.col("num_nodes") == nodes)
        steps = pl.read_csv(folder / "scalability.csv").filter(shape)
    steps = steps.sort("local_bsz")
    sizes = steps["local_bsz"].to_numpy()
    local = math.ceil(batch / replicas)
    passes = math.ceil(local / sizes[-1])
    step, sync = (
        np.interp(math.ceil(local / passes), sizes, steps[name].to_numpy()) for name in ("step_time", "sync_time")
    )
    iterations = pl.read_csv(folder / f"validation-{batch}.csv")["iteration"][-1]
    return float(iterations * (passes * step - (passes - 1) * sync))


@pytest.mark.parametrize("application", RUN_TIME_S)
def test_pollux_run_times_follow_from_its_profiles(shared_data: Path, application: str) -> None:
    folder = shared_data / "profiles" / "pollux" / application
    assert RUN_TIME_S[application] == {size: round(run_time_s(folder, *size)) for size in RUN_TIME_S[application]}


def test_chronus_rows_without_a_gpu_are_counted(shared_data: Path) -> None:
    workload = read(shared_data / "traces/philly/chronus_philly_MIX1.csv.gz")
    assert "184 left out: no GPU asked for" in workload.notes
    assert len(workload.tenants) == 11
    assert sum(model == "mobilenet" for model in texts(workload, "model")) > 6000

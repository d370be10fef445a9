"""Formats known by their published columns, on files written here."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.traces import Source, find_reader, read

from .same import texts

HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
1425513,uzqls,vcpDC,0,1,1,CANCELLED,2020-06-09 18:41:28,None,None,,0
1425514,uzqls,vcpDC,1,1,1,CANCELLED,2020-06-09 18:41:28,None,None,,0
"""

PAI = """a1,tensorflow,1.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC
b2,ps,1.0,Terminated,1739170.0,1739270.0,600.0,30.0,0.0,T4
b2,worker,2.0,Terminated,1739180.0,1739300.0,400.0,10.0,100.0,V100
c3,worker,3.0,Failed,1739190.0,1739191.0,100.0,1.0,50.0,T4
d4,worker,1.0,Waiting,,,100.0,1.0,100.0,P100
e5,ps,1.0,Terminated,1739190.0,1739191.0,100.0,1.0,,
"""


def test_helios(tmp_path: Path) -> None:
    (tmp_path / "cluster_log.csv").write_text(HELIOS)
    workload = read(tmp_path / "cluster_log.csv")
    assert workload.job_id.tolist() == [1425511, 1425512]
    assert workload.arrival_s.tolist() == [0, 26]
    assert (workload.gpus.tolist(), workload.cpus.tolist()) == ([1, 4], [1, 16])
    assert workload.duration_s.tolist() == [36848, 249]
    assert texts(workload, "tenant") == ["vcJkd", "vchbv"]
    assert workload.notes[:2] == ("1 left out: no GPU asked for", "1 left out: no duration above 0")


@pytest.mark.parametrize(
    "header", ["", "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"]
)
def test_pai(tmp_path: Path, header: str) -> None:
    (tmp_path / "tasks").write_text(header + PAI)
    assert find_reader(Source.open(tmp_path / "tasks")).name == "pai"
    workload = read(tmp_path / "tasks")
    assert workload.job_id.tolist() == ["a1", "b2", "c3"]
    assert workload.gpus.tolist() == [0.5, 2, 2]
    assert workload.cpus.tolist() == [6, 6 + 8, 3]
    assert workload.memory_gb.tolist() == [29.296875, 50, 3]
    assert workload.arrival_s.tolist() == [0, 8, 28]
    assert workload.duration_s.tolist() == [38, 130, 1]
    assert texts(workload, "gpu_types") == ["MISC", "V100", "T4"]
    assert workload.notes[:4] == (
        "1 further tasks joined to their jobs",
        "1 jobs ask for a fraction above one GPU: rounded up to whole GPUs",
        "1 left out: no GPU asked for",
        "1 left out: no arrival time",
    )


def test_a_format_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    disguised = tmp_path / "photo.jpeg"
    disguised.write_bytes(gzip.compress(b"# recorded\n\n7,res50,1.5,100,2\n"))
    assert find_reader(Source.open(disguised)).name == "synergy"
    job = read(disguised).job(0)
    assert (job.job_id, job.model, job.arrival_s, job.iterations, job.gpus) == (7, "res50", 1.5, 100, 2)


def test_synergy_takes_headers_comments_and_further_columns(tmp_path: Path) -> None:
    text = "# a\njob_id,model,arrival_s,total_iterations,gpus,duration_s\n0,gnmt,.5,10,1,1.2\n# b\n1,res18,2,20,2,3\n"
    (tmp_path / "t").write_text(text)
    workload = read(tmp_path / "t")
    assert (workload.arrival_s.tolist(), workload.iterations.tolist()) == ([0.5, 2], [10, 20])


def test_pollux_sizes_that_nobody_measured_keep_their_gpu_time(tmp_path: Path) -> None:
    text = "name,time,application,num_replicas,batch_size\nbert-0,5,bert,2,24\nbert-1,9,bert,1,12\n"
    (tmp_path / "t").write_text(text)
    workload = read(tmp_path / "t")
    assert workload.duration_s.tolist() == [13614 / 2, 13614]
    assert workload.notes[0].startswith("1 jobs of unmeasured size")


def test_a_named_format_is_taken_at_its_word(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("0,res50,soon,100,1\n")
    with pytest.raises(InputError, match="none of the formats"):
        read(tmp_path / "t")
    with pytest.raises(InputError, match=r"t, row 1, field arrival_s: 'soon' is not a number"):
        read(tmp_path / "t", format="synergy")
    with pytest.raises(InputError, match=r"'sinergy' is not a trace format. Did you mean 'synergy'"):
        read(tmp_path / "t", format="sinergy")


def test_pollux_takes_the_measurement_with_the_nearest_number_of_gpus(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("name,time,application,num_replicas,batch_size\nc,5,cifar10,3,1024\n")
    assert read(tmp_path / "t").duration_s.tolist() == [1165 * 4 / 3]

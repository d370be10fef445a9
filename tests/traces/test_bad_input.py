"""Bad traces: the error names file, row, field and value, and says what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.traces import READERS, read

SYNERGY = "# recorded\n0,res50,0,100,1\n\n1,gnmt,5,200,1\n"
HEAD = "gpuyard: workload/1\njobs:\n- {job_id: 0, arrival_s: 0, gpus: 1, model: gnmt, duration_s: 9}\n"
JOB = "- {job_id: 1, arrival_s: 0, gpus: 1, model: gnmt, duration_s: 9}\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,2048,1,500\n"
GAVEL = "LM (batch size 5)\tcmd\t-n\t1\t100\t0.0\t1\n"
POLLUX = "name,time,application,num_replicas,batch_size\nncf-0,29,ncf,1,256\n"

CASES = {
    # name: (file content, row, field, value, words of the rule or hint)
    "text for a number": (SYNERGY + "2,gnmt,soon,200,1\n", 5, "arrival_s", "soon", "is not a number"),
    "not a number": (SYNERGY + "2,gnmt,nan,200,1\n", 5, "arrival_s", "nan", "is not a number"),
    "beyond all measure": (SYNERGY + "2,gnmt,1e300,200,1\n", 5, "arrival_s", "1e300", "is beyond 1e+18"),
    "negative arrival": (SYNERGY + "2,gnmt,-1,200,1\n", 5, "arrival_s", -1.0, "must not be negative"),
    "negative work": (SYNERGY + "2,gnmt,1,-200,1\n", 5, "iterations", -200.0, "must not be negative"),
    "no GPU": (SYNERGY + "2,gnmt,1,200,0\n", 5, "gpus", 0.0, "must be a whole number of GPUs"),
    "a GPU and a half": (SYNERGY + "2,gnmt,1,200,1.5\n", 5, "gpus", 1.5, "must be a whole number of GPUs"),
    "unknown model": (SYNERGY + "2,res51,1,200,1\n", 5, "model", "res51", "Did you mean 'res50'"),
    "id twice": (SYNERGY + "1,gnmt,1,200,1\n", 5, "job_id", 1, "stands twice"),
    "id blank": (SYNERGY + ",gnmt,1,200,1\n", 5, "job_id", None, "is blank"),
    "short row": (SYNERGY + "2,gnmt,1\n", 5, "iterations", None, "is blank; it must be a number"),
    "yaml: text for a number": (HEAD + JOB.replace("9", "soon"), 4, "duration_s", "soon", "must be a number"),
    "yaml: negative": (HEAD + JOB.replace("9", "-9"), 4, "duration_s", -9.0, "must not be negative"),
    "yaml: infinite": (HEAD + JOB.replace("9", ".inf"), 4, "duration_s", float("inf"), "must be a finite number"),
    "yaml: huge": (HEAD + JOB.replace("9", "1" + "0" * 400), 4, "duration_s", 10**400, "at most 1e+18"),
    "yaml: broken date": (HEAD + JOB.replace("9", "2017-13-45"), 4, None, None, "month must be in 1..12"),
    "yaml: list as field": (HEAD + JOB.replace("{", "{[a]: 1, "), 4, None, None, "is not valid YAML"),
    "yaml: control character": (HEAD + "\0", None, None, None, "is not valid YAML"),
    "yaml: truth": (HEAD + JOB.replace("gpus: 1", "gpus: yes"), 4, "gpus", True, "must be a number"),
    "yaml: unknown field": (HEAD + JOB.replace("gpus:", "gpu:"), 4, None, "gpu", "Did you mean 'gpus'"),
    "yaml: missing field": (HEAD + JOB.replace("gpus: 1, ", ""), 4, "gpus", None, "is missing"),
    "yaml: no work": (HEAD + JOB.replace(", duration_s: 9", ""), 4, "iterations", None, "needs iterations or duration"),
    "yaml: unknown model": (HEAD + JOB.replace("gnmt", "gnmtt"), 4, "model", "gnmtt", "Did you mean 'gnmt'"),
    "yaml: id twice": (HEAD + JOB.replace("job_id: 1", "job_id: 0"), 4, "job_id", 0, "stands twice"),
    "yaml: field twice": (HEAD + JOB.replace("{", "{gpus: 2, "), 4, None, "gpus", "stands twice in one entry"),
    "yaml: broken priority": (HEAD + JOB.replace("9", "9, priority: 0.5"), 4, "priority", 0.5, "whole number"),
    "yaml: not a mapping": (HEAD + "- 7\n", 4, None, "7", "must be a mapping"),
    "yaml: damaged": (HEAD + "- {job_id: 1,\n  gpus: ]\n", 5, None, None, "is not valid YAML"),
    "yaml: another part": (HEAD + "job: []\n", 4, None, "job", "is not a part of this file"),
    "yaml: another version": (HEAD.replace("/1", "/2"), 1, "gpuyard", "workload/2", "it reads workload/1"),
    "yaml: no jobs": ("gpuyard: workload/1\njobs: []\n", None, "jobs", None, "at least one entry"),
    "philly: broken time": (PHILLY + "then,66.0,1,66.0,11cb48\n", 3, "timestamp", "then", "is not a time"),
    "philly: blank duration": (PHILLY + "2017-10-09 07:01:55,,1,6,x\n", 3, "duration", None, "is blank"),
    "philly: not in order": (PHILLY + "2017-10-08 07:01:55,6.0,1.5,6.0,x\n", 3, "gpus", 1.5, "must be a whole number"),
    "openb: text for a number": (OPENB + "p1,1000,2048,one,500\n", 3, "num_gpu", "one", "is not a number"),
    "openb: id twice": (OPENB + "p0,1000,2048,1,500\n", 3, "job_id", "p0", "stands twice"),
    "openb: nothing to run": (OPENB.replace("1,500", "0,0"), None, None, None, "no job that could run"),
    "gavel: unknown job": (GAVEL + GAVEL.replace("LM", "LLM"), 2, "job_type", "LLM (batch size 5)", "Did you mean"),
    "pollux: unknown application": (POLLUX + "x,1,ncff,1,256\n", 3, "application", "ncff", "Did you mean 'ncf'"),
    "header only": (OPENB.splitlines()[0] + "\n", None, None, None, "holds no jobs"),
    "quote left open": (OPENB + 'p1,"1000,2048,1,500\np2,1,1,1,1\n', None, None, None, "quoted value"),
    "nothing": ("\n", None, None, None, "is empty"),
    "something else": ("Dear diary,\n", None, None, None, "Known: gpuyard-yaml"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_error_names_its_place(tmp_path: Path, case: str) -> None:
    content, row, field, value, words = CASES[case]
    file = tmp_path / "trace"
    file.write_text(content)
    with pytest.raises(InputError) as refused:
        read(file)
    error, text = refused.value, str(refused.value)
    assert error.file == str(file)
    assert (error.row, error.field) == (row, field)
    assert error.value == value or value is None
    assert words in text
    assert str(file) in text
    assert row is None or f"row {row}" in text
    assert field is None or f"field {field}" in text
    assert value is None or repr(value) in text
    assert "\n" not in text


def test_damaged_archives(tmp_path: Path) -> None:
    file = tmp_path / "t.csv.gz"
    file.write_bytes(gzip.compress(SYNERGY.encode() * 100)[:-20])
    with pytest.raises(InputError, match=r"t\.csv\.gz: is a damaged gzip file"):
        read(file)


def test_what_is_not_there_or_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="absent: does not exist"):
        read(tmp_path / "absent")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read(tmp_path)


def test_text_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(SYNERGY.encode() + "2,gnmt,1,200,1 # é\n".encode("latin-1"))
    with pytest.raises(InputError, match="t, row 5: is not UTF-8 text"):
        read(tmp_path / "t")


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("gpus", ["1", "2"], "must hold numbers"),
        ("model", [1, 2], "must hold text"),
        ("model", ["gnmt", None], "row 2, field model: is absent"),
        ("priority", [0.5, 1.0], "must hold whole numbers"),
        ("duration_s", [1.0, float("inf")], "row 2, field duration_s: inf must be a finite number"),
        ("arrival_s", [1.0, float("nan")], "row 2, field arrival_s: is absent"),
        ("gpus", [1.0, -1.0], "row 2, field gpus: -1.0 must be a whole number"),
        ("model", ["gnmt", "gmnt"], "row 2, field model: 'gmnt' is not a known model"),
        ("gpuz", [1, 2], "'gpuz' is not a field of a job. Did you mean 'gpus'"),
    ],
)
def test_parquet(tmp_path: Path, column: str, values: list[object], words: str) -> None:
    good = {"job_id": [0, 1], "arrival_s": [0.0, 1.0], "gpus": [1.0, 1.0], "model": ["gnmt", "m5"]}
    frame = pl.DataFrame(good | {"duration_s": [5.0, 6.0]} | {column: values})
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError) as refused:
        read(tmp_path / "t.parquet")
    assert words in str(refused.value)


def test_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match=r"t\.parquet: is not a readable Parquet file"):
        read(tmp_path / "t.parquet")


STARTS = [content for content, *_ in CASES.values()] + ['[{"attempts": [', '[{"attempts": []}]', "[[]]", "PAR1"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary() | st.builds(lambda start, rest: (start + rest).encode(), st.sampled_from(STARTS), st.text()))
@pytest.mark.parametrize("format", [reader.name for reader in READERS])
def test_no_content_makes_a_reader_fail_in_another_way(tmp_path: Path, format: str, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    try:
        assert len(read(tmp_path / "t", format=format)) > 0
    except InputError as error:
        assert error.file == str(tmp_path / "t")  # noqa: PT017 - both outcomes are right

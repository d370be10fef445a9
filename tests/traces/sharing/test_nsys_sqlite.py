"""The database of an nsys export says the same as the CSV of its kernexectrace."""

import csv
import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.traces.sharing.test_nsys import HEADER, ROWS

from gpuyard.core.errors import InputError
from gpuyard.traces.sharing import SequenceProfile, read_nsys

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER, returnValue INTEGER, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, mangledName INTEGER);
"""
MACHINE = 0x12 << 48
# The same number in another process is another call. A call without a kernel counts nothing, nor does the reverse.
OTHERS = HEADER + ROWS + "50,10,60,10,70,30,8,conv\n"


def export(path: Path, trace: str = OTHERS) -> Path:
    """What `nsys export --type sqlite` makes of the kernels of a kernexectrace, last launch first."""
    kernels = list(csv.DictReader(io.StringIO(trace)))
    names = {name: number for number, name in enumerate(sorted({each["Kernel Name"] for each in kernels}), 100)}
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "short"), *((n, s) for s, n in names.items())])
        for number, each in reversed(list(enumerate(kernels))):
            process = MACHINE | int(each["PID"]) << 24
            issued, begun = int(each["API Start (ns)"]), int(each["Kernel Start (ns)"])
            call = (issued, issued + int(each["API Dur (ns)"]), 0, process | 9, number % 4, 1, 0, None)
            kernel = (begun, begun + int(each["Kernel Dur (ns)"]), 0, 1, 7, number % 4, process)
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?,?,?,?)", call)
            kernel_row = (*kernel, names[each["Kernel Name"]], 1, 1)
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?,?,?,?)", kernel_row)
        change(database, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0, 9, 77, 1, 0, NULL)")
        change(database, f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 1, 7, 78, {MACHINE}, 100, 1, 1)")
    return path


def change(database: sqlite3.Connection, statement: str) -> None:
    database.execute(statement)
    database.commit()


def said(found: SequenceProfile) -> tuple[object, ...]:
    return found.sequence.durations_s, found.jobs, found.queue_s.tolist(), found.queue.tolist()


@pytest.mark.parametrize(("jobs", "pid"), [(2, 7), (1, 8)])
@pytest.mark.parametrize("name", ["trace.sqlite", "a trace? #1.db"])
def test_the_database_says_what_the_csv_says(tmp_path: Path, name: str, jobs: int, pid: int) -> None:
    (tmp_path / "trace.csv").write_text(OTHERS)
    before = export(tmp_path / name).read_bytes()
    found = read_nsys(tmp_path / name, jobs, pid)
    assert said(found) == said(read_nsys(tmp_path / "trace.csv", jobs, pid))
    assert found.sequence.source == f"nsys {name}"
    assert (tmp_path / name).read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "trace.csv"])


def test_where_kernels_have_short_names_only_these_are_taken(tmp_path: Path) -> None:
    path = export(tmp_path / "trace.sqlite", HEADER + ROWS)
    with closing(sqlite3.connect(path)) as database:
        change(database, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName")
    assert read_nsys(path, jobs=4).jobs == 4, "all have one short name, so that they could be four jobs"


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "lacks the table 'CUPTI_ACTIVITY_KIND_KERNEL' of an nsys export"),
        ("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN globalTid", "lacks the column 'globalTid' of its table"),
        ("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME", "holds no kernels"),
        (
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 'soon' WHERE rowid = 3",
            "row 3, field CUPTI_ACTIVITY_KIND_KERNEL.end: 'soon' must be a whole number of ns",
        ),
        ("UPDATE StringIds SET value = CAST(x'ff' AS TEXT)", "is not a database that can be read"),
    ],
)
def test_a_database_that_is_no_such_export_is_refused(tmp_path: Path, statement: str, complaint: str) -> None:
    path = export(tmp_path / "trace.sqlite", HEADER + ROWS)
    with closing(sqlite3.connect(path)) as database:
        change(database, statement)
    with pytest.raises(InputError) as caught:
        read_nsys(path, jobs=2)
    assert complaint in str(caught.value)
    assert "trace.sqlite" in str(caught.value)


def test_a_view_in_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    path = export(tmp_path / "trace.sqlite")
    with closing(sqlite3.connect(path)) as database:
        change(database, "DROP TABLE StringIds")
        change(database, "CREATE VIEW StringIds AS SELECT 100 AS id, 'conv' AS value")
    with pytest.raises(InputError, match="lacks the table 'StringIds'"):
        read_nsys(path, jobs=2)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"no database at all", "is not a database"), (b"", "lacks the table"), (None, "does not exist")],
)
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    path = tmp_path / "trace.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        read_nsys(path, jobs=2)


def test_a_database_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = export(tmp_path / "trace.sqlite")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(InputError, match="is not a database that can be read"):
        read_nsys(path, jobs=2)

"""What a scheduler keeps on disk, so that another one can go on where it ended, however it ended.

SQLite with a write-ahead log: what is committed is there after `kill -9`. Jobs are kept as JSON, by their names.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpuyard.client.shared_batch import BatchWish
from gpuyard.core.errors import GpuyardError, InputError
from gpuyard.core.grants import Grant, Part
from gpuyard.core.workload import Job
from gpuyard.runtime.records import Attempt, JobRecord, JobState, RankState

FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (name TEXT PRIMARY KEY, number INTEGER NOT NULL, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS spans (number INTEGER PRIMARY KEY, row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS attempts (number INTEGER PRIMARY KEY, row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS companies (number INTEGER PRIMARY KEY, row TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mixes (number INTEGER PRIMARY KEY, row TEXT NOT NULL);
"""
HAPPENED = ("spans", "attempts", "companies", "mixes")

_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
"""The second is what a quota looks like."""


class StoreFullError(GpuyardError):
    """Nothing can be kept at present; what is there stays as it is."""


class RunStore:
    """The file of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.executescript(_TABLES)
        except sqlite3.Error as error:
            raise InputError(f"cannot be used: {error}", file=path) from None
        found = self.meta("format")
        if found is None:
            self.set_meta("format", FORMAT)
        elif found != FORMAT:
            raise InputError(f"has the format {found}, and this gpuyard writes {FORMAT}", file=path)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._file.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is written inside is there after a crash, or nothing of it."""
        with self._lock:
            if self._file.in_transaction:
                yield
                return
            try:
                self._file.execute("BEGIN IMMEDIATE")
                yield
                self._file.execute("COMMIT")
            except BaseException as error:
                self._take_back()
                if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in _NO_ROOM:
                    raise StoreFullError(f"{self.path}: {error}") from None
                raise

    def _take_back(self) -> None:
        """End a transaction that failed, unless SQLite has done so by itself."""
        if self._file.in_transaction:
            self._file.execute("ROLLBACK")

    def meta(self, key: str) -> Any:
        """A fact about the run; None if it is not known."""
        with self._lock:
            row = self._file.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def set_meta(self, key: str, value: Any) -> None:
        """Keep a fact about the run."""
        with self.together():
            self._file.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def save(self, records: Iterable[tuple[int, JobRecord]]) -> None:
        """Keep these jobs, each with its position."""
        rows = [(record.name, number, json.dumps(record_as_json(record))) for number, record in records]
        with self.together():
            self._file.executemany("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)", rows)

    def records(self) -> dict[str, JobRecord]:
        """All jobs, in their order."""
        with self._lock:
            rows = self._file.execute("SELECT record FROM jobs ORDER BY number").fetchall()
        found = (record_from_json(json.loads(row[0])) for row in rows)
        return {record.name: record for record in found}

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Append a row to one of the tables of what happened."""
        assert table in HAPPENED
        with self._lock:
            self._file.execute(f"INSERT INTO {table} (row) VALUES (?)", (json.dumps(row),))  # noqa: S608

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of one of these tables, in order."""
        assert table in HAPPENED
        with self._lock:
            found = self._file.execute(f"SELECT row FROM {table} ORDER BY number").fetchall()  # noqa: S608
        return [json.loads(row[0]) for row in found]


def record_as_json(record: JobRecord) -> dict[str, Any]:
    """A job as plain values."""
    return asdict(record)


def record_from_json(found: dict[str, Any]) -> JobRecord:
    """The job that these plain values say."""
    found["job"] = Job(**found["job"])
    found["state"] = JobState(found["state"])
    found["command"] = tuple(found["command"])
    found["target"] = _grant(found["target"])
    if found["attempt"] is not None:
        attempt = found["attempt"]
        attempt["grant"] = _grant(attempt["grant"])
        attempt["ranks"] = [RankState(**rank) for rank in attempt["ranks"]]
        attempt["wish"] = attempt["wish"] and BatchWish(**attempt["wish"])
        found["attempt"] = Attempt(**attempt)
    return JobRecord(**found)


def _grant(found: dict[str, Any] | None) -> Grant | None:
    if found is None:
        return None
    return Grant(found["holder"], tuple(Part(**part) for part in found["parts"]))

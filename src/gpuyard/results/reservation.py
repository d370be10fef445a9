"""Reserves a name for a run folder, and writes the folder so that it appears whole or not at all.

The name `fast` is reserved by making `.fast.partial` beside it, which only one process can do. The files go there, and
the folder gets its own name when it is complete. As long as its process lives it holds a lock on the folder, so that
whoever comes next can tell a folder in the making from what a killed process has left, and clears the latter away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from secrets import token_hex

from gpuyard.core.errors import InputError, WriteError
from gpuyard.core.interrupts import interrupts_held_back
from gpuyard.results.folders import INFO, foreign_files
from gpuyard.results.leftovers import ASIDE, PARTIAL, clear_leftovers
from gpuyard.results.locks import hold, only_one
from gpuyard.results.writing import put_in_place, write_files

OTHER = "Name another folder"
ATTEMPTS = 10
"""How often a folder is made again that other processes, which wrote nothing in the end, remove as empty."""


class Reservation:
    """A run folder in the making; `reserve` and `reserve_next` make one."""

    def __init__(self, target: Path, hidden: Path, lock: int, *, overwrite: bool) -> None:
        self.target = target
        self.overwrite = overwrite
        self._hidden = hidden
        self._lock = lock
        self.made: list[Path] = []
        """Folders above it that had to be made, the nearest first."""

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Write files, sync them, and give the folder its name; on failure all is as before."""
        with interrupts_held_back():
            try:
                # Where locks do not reach across machines, another one may have cleared the empty folder away.
                self._hidden.mkdir(exist_ok=True)
                write_files(self._hidden, contents)
                with only_one(self.target.parent):
                    check_free(self.target, overwrite=self.overwrite)
                    aside = self.target.with_name(f".{self.target.name}-{token_hex(4)}{ASIDE}")
                    put_in_place(self._hidden, self.target, aside)
            except OSError as error:
                raise WriteError(
                    f"the run could not be written: {error.strerror or error}",
                    file=self.target,
                    hint="Nothing was left behind; free some space or name another folder, and run again",
                ) from error

    def release(self) -> None:
        """Leave no trace but the folder that was written, if it was."""
        shutil.rmtree(self._hidden, ignore_errors=True)
        os.close(self._lock)
        with suppress(OSError):  # there is something in them now, of this process or another
            for folder in self.made:
                folder.rmdir()


@contextmanager
def reserve(folder: Path | str, *, overwrite: bool = False) -> Iterator[Reservation]:
    """Keep this very name from other processes; InputError when it is taken or nothing can be written there.

    With `overwrite` a run that is there is replaced in the end; processes that do so at once replace each other's.
    """
    target = Path(folder)

    def attempt() -> Reservation:
        check_free(target, overwrite=overwrite)
        place = _attempt(target, overwrite=overwrite)
        if place is None:
            raise InputError("is being written by another process", file=target, hint=OTHER)
        return place

    with _released(target.parent, attempt) as place:
        yield place


@contextmanager
def reserve_next(folder: Path | str) -> Iterator[Reservation]:
    """Reserve the first free name of fast, fast-2, fast-3, …: no two processes get the same."""
    first = Path(folder)
    names = (first if number == 1 else first.with_name(f"{first.name}-{number}") for number in count(1))

    def attempt() -> Reservation:
        places = (_attempt(target, overwrite=False) for target in names if not _exists(target))
        return next(place for place in places if place is not None)

    with _released(first.parent, attempt) as place:
        yield place


def check_writable(folder: Path | str) -> None:
    """Find out now, rather than after minutes of work, whether run folders can be made in this folder."""
    asked = Path(folder)
    there = next((parent for parent in (asked, *asked.parents) if _exists(parent)), asked)
    with reserve(there / f"probe-{token_hex(4)}"):
        pass


def check_free(target: Path, *, overwrite: bool) -> None:
    """Refuse a folder in the way, unless it is a run that may be replaced."""
    if not _exists(target):
        return
    if target.is_symlink() or not target.is_dir():
        raise InputError("is in the way and is not a folder", file=target, hint=OTHER)
    if not (target / INFO).is_file() or foreign_files(target):
        raise InputError("is in the way and holds other files than a run's", file=target, hint=OTHER)
    if not overwrite:
        raise InputError("already holds a run", file=target, hint=OTHER + ", or allow it to be overwritten")


@contextmanager
def _released(parent: Path, attempt: Callable[[], Reservation]) -> Iterator[Reservation]:
    place = None
    try:
        with interrupts_held_back():  # one that comes between making and remembering would leave a trace
            place = _in_tidy_folder(parent, attempt)
        yield place
    finally:
        if place is not None:
            with interrupts_held_back():
                place.release()


def _in_tidy_folder(parent: Path, attempt: Callable[[], Reservation], attempts: int = ATTEMPTS) -> Reservation:
    made = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with only_one(parent) as alone:
            if alone:
                clear_leftovers(parent)
            place = attempt()
            place.made = made
            return place
    except OSError as error:
        found = Path(error.filename) if isinstance(error, FileExistsError) else None
        blocked = found is not None and _exists(found) and not found.is_dir()
        # What another process removes as empty meanwhile is not found, or was found and is no folder a moment later.
        if isinstance(error, (FileNotFoundError, FileExistsError)) and not blocked and attempts > 1:
            return _in_tidy_folder(parent, attempt, attempts - 1)
        cause = "it is not a folder" if blocked else error.strerror or error
        raise InputError(f"no run can be written there: {cause}", file=parent, hint=OTHER) from error


def _attempt(target: Path, *, overwrite: bool) -> Reservation | None:
    """Reserve a name; None when another process has it."""
    mark = f"-{token_hex(4)}" if overwrite else ""
    hidden = target.with_name(f".{target.name}{mark}{PARTIAL}")
    try:
        hidden.mkdir()
    except FileExistsError:
        return None
    return Reservation(target, hidden, hold(hidden), overwrite=overwrite)


def _exists(path: Path) -> bool:
    return os.path.lexists(path)

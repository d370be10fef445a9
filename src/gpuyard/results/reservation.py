"""Reserves a name for a run folder, and writes the folder so that it appears whole or not at all.

While the work goes on, the name is kept by a lock outside of the folder of the runs, and nothing stands there. Then the
files are written without names, gathered in a hidden folder, and that gets the name: a kill leaves nothing, or in that
last moment a hidden folder for the next command to remove.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from secrets import token_hex

from gpuyard.core.errors import InputError, WriteError
from gpuyard.core.interrupts import interrupts_held_back
from gpuyard.results.folders import INFO, foreign_files
from gpuyard.results.leftovers import ASIDE, clear_leftovers
from gpuyard.results.locks import only_one
from gpuyard.results.name_locks import NameLock, lock_name
from gpuyard.results.staging import blocking, staged, try_out
from gpuyard.results.writing import fill, put_in_place, written

OTHER = "Name another folder"

_Names = Iterator[tuple[Path, NameLock]]
"""The names that a run may have, the best first, each kept for it."""


class Reservation:
    """A run folder in the making; `reserve` and `reserve_next` make one."""

    def __init__(self, names: _Names, *, overwrite: bool) -> None:
        self._names = names
        self._overwrite = overwrite
        self.target, self._lock = next(names)

    def write(self, contents: Mapping[str, bytes]) -> None:
        """Write files, sync them, and give the folder its name; on failure all is as before."""
        with interrupts_held_back():
            try:
                with written(contents, self.target) as files, staged(self.target) as hidden:
                    clear_leftovers(self.target.parent)
                    fill(hidden, contents, files)
                    self._check_name()
                    aside = self.target.with_name(f".{self.target.name}-{token_hex(4)}{ASIDE}")
                    put_in_place(hidden, self.target, aside)
            except OSError as error:
                raise WriteError(
                    f"the run could not be written: {error.strerror or error}",
                    file=self.target,
                    hint="Nothing was left behind; free some space or name another folder, and run again",
                ) from error

    def release(self) -> None:
        """Let others have the name."""
        self._lock.release()

    def _check_name(self) -> None:
        """Take the next name, or refuse, where somebody who does not see our locks has taken this one."""
        try:
            check_free(self.target, overwrite=self._overwrite)
        except InputError:
            other = next(self._names, None)
            if other is None:
                raise
            self.release()
            self.target, self._lock = other


@contextmanager
def reserve(folder: Path | str, *, overwrite: bool = False) -> Iterator[Reservation]:
    """Keep this very name from other processes; InputError when it is taken or nothing can be written there.

    With `overwrite` a run that is there is replaced in the end; processes that do so at once replace each other's.
    """
    target = Path(folder)

    def attempt() -> Reservation:
        with _undisturbed(target.parent):
            check_free(target, overwrite=overwrite)
        lock = NameLock(None, 0) if overwrite else lock_name(target)
        if lock is None:
            raise InputError("is being written by another process", file=target, hint=OTHER)
        return Reservation(iter([(target, lock)]), overwrite=overwrite)

    with _released(attempt) as place:
        yield place


@contextmanager
def reserve_next(folder: Path | str) -> Iterator[Reservation]:
    """Reserve the first free name of fast, fast-2, fast-3, …: no two processes get the same."""
    first = Path(folder)
    with _released(lambda: Reservation(_free_names(first), overwrite=False)) as place:
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
def _released(attempt: Callable[[], Reservation]) -> Iterator[Reservation]:
    place = None
    try:
        with interrupts_held_back():  # one that comes between keeping and remembering would keep the name for good
            place = attempt()
            _try_out(place.target)
        yield place
    finally:
        if place is not None:
            place.release()


def _try_out(target: Path) -> None:
    try:
        try_out(target)
    except OSError as error:
        cause = "it is not a folder" if blocking(error) else error.strerror or error
        raise InputError(f"no run can be written there: {cause}", file=target.parent, hint=OTHER) from error


def _free_names(first: Path) -> _Names:
    for number in count(1):
        target = first if number == 1 else first.with_name(f"{first.name}-{number}")
        lock = None if _exists(target) else lock_name(target)
        if lock is None:
            continue
        if _exists(target):  # by now
            lock.release()
        else:
            yield target, lock


@contextmanager
def _undisturbed(folder: Path) -> Iterator[None]:
    """Let nobody put a run in its place in a folder meanwhile: between two names there is neither."""
    with ExitStack() as held:
        with suppress(OSError):  # it is not there yet, or may not be read
            held.enter_context(only_one(folder))
        yield


def _exists(path: Path) -> bool:
    return os.path.lexists(path)

"""A hidden folder beside a run in the moment in which its files get their names; then it gets its own.

As long as its process lives it holds a lock on the folder, so that whoever comes next can tell a folder in the making
from what a killed process has left, and clears the latter away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from gpuyard.results.leftovers import PARTIAL
from gpuyard.results.locks import hold, only_one
from gpuyard.results.unnamed import nearest_folder, open_unnamed

ATTEMPTS = 10
"""How often a folder is made again that other processes, which wrote nothing in the end, remove as empty."""


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Make a hidden folder beside the target, and whatever is missing above it; remove what was not used.

    Meanwhile nobody else puts a run in its place there, or tidies up.
    """
    made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
    hidden = _hidden(target)
    try:
        with ExitStack() as entered:
            _make(hidden, entered)
            yield hidden
    finally:
        with suppress(OSError):  # there is something in them now, of this process or another
            for folder in made:
                folder.rmdir()


def try_out(target: Path) -> None:
    """Raise the OSError that writing there would end with; nothing is left of it, nor there meanwhile if possible."""
    file = open_unnamed(target)
    if file is None:
        with staged(target):
            return
    os.close(file)
    there = nearest_folder(target)
    for path in (_hidden(target), *target.parents):
        with suppress(FileNotFoundError):
            (there / path.name).lstat()  # its name may be too long


def blocking(error: OSError) -> Path | None:
    """What stands where a folder should be and is none, if that is why it could not be made."""
    asked = Path(error.filename)
    found = next((path for path in (asked, *asked.parents) if os.path.lexists(path)), asked)
    return None if found.is_dir() else found


def _hidden(target: Path) -> Path:
    return target.with_name(f".{target.name}-{token_hex(4)}{PARTIAL}")


def _make(hidden: Path, entered: ExitStack, attempts: int = ATTEMPTS) -> None:
    try:
        hidden.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as making:
            making.enter_context(only_one(hidden.parent))  # first: whoever is killed while it waits leaves nothing
            hidden.mkdir()
            making.callback(shutil.rmtree, hidden, ignore_errors=True)
            making.callback(os.close, hold(hidden))
            entered.enter_context(making.pop_all())
    except (FileNotFoundError, FileExistsError) as error:
        # What another process removes as empty meanwhile is not found, or was found and is no folder a moment later.
        if blocking(error) is not None or attempts == 1:
            raise
        _make(hidden, entered, attempts - 1)

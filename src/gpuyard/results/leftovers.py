"""What a killed process leaves beside the runs: told apart from folders in the making, and cleared away."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from gpuyard.results.folders import foreign_files, is_run
from gpuyard.results.locks import is_abandoned, only_one

PARTIAL = ".partial"
"""How the name of a folder in the making ends; it starts with a dot."""

ASIDE = ".old.partial"
"""How the name ends of a run that is being replaced."""

_ASIDE_NAME = re.compile(rf"\.(.+)-[0-9a-f]{{8}}{re.escape(ASIDE)}")


def tidy(folder: Path) -> None:
    """Clear away what processes that are gone left in a folder, if it is there."""
    with suppress(OSError), only_one(folder) as alone:
        if alone:
            clear_leftovers(folder)


def clear_leftovers(parent: Path) -> None:
    """Remove what killed processes left; a run that one had only moved aside goes back to its place.

    To be called by one process at a time, or a folder that another has just made would look abandoned.
    """
    for folder in sorted(parent.glob(f".*{PARTIAL}")):
        with suppress(OSError):  # what cannot be read or removed is in nobody's way
            if not folder.is_symlink() and folder.is_dir() and not foreign_files(folder) and is_abandoned(folder):
                _clear(folder)


def _clear(folder: Path) -> None:
    replaced = _ASIDE_NAME.fullmatch(folder.name)
    if replaced and is_run(folder) and not folder.with_name(replaced[1]).exists():
        folder.rename(folder.with_name(replaced[1]))
    else:
        shutil.rmtree(folder, ignore_errors=True)

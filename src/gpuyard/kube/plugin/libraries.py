"""Puts libraries where pods find them: in a folder of the node."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gpuyard import native


def put_libraries(folder: Path, pattern: str) -> None:
    """Put those whose names are like this there, over older ones that pods may have open."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in native.folder().glob(pattern):  # and not what a build that was killed has left
        beside = folder / f".{file.name}.{os.getpid()}"
        shutil.copy(file, beside)
        beside.replace(folder / file.name)

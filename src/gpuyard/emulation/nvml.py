"""The emulated NVML library: where it is, and how programs come to load it instead of the vendor's."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from gpuyard.core.errors import MissingLibraryError
from gpuyard.native import find

LIBRARY = "libnvidia-ml.so.1"


def library_path() -> Path | None:
    """Return the library; None where it cannot be built, as on a machine without a C compiler."""
    try:
        return find(LIBRARY)
    except MissingLibraryError:
        return None


def preload() -> bool:
    """Load the library into this process, so that whoever asks for NVML by name from now on gets this one.

    The loader knows a library that is loaded by the name inside it, and does not look for another one of that name.
    """
    path = library_path()
    if path is not None:
        ctypes.CDLL(str(path))
    return path is not None


def search_path(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variable that makes a program's processes find the library, to be added to their environment."""
    path = library_path()
    if path is None:
        return {}
    others = environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    folders = [str(path.parent), *(folder for folder in others if folder not in ("", str(path.parent)))]
    return {"LD_LIBRARY_PATH": os.pathsep.join(folders)}

"""Compiles libraries from their sources as they are now, for tests that want them so."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuyard.native import build_script


def compile_strictly(name: str, folder: Path, flags: Sequence[str] = ()) -> Path:
    """Compile a library, in which no warning is allowed."""
    script = build_script()
    try:
        made: Path = script.build(script.LIBRARIES[name], folder / name, ["-Werror", *flags])
    except script.BuildError as error:
        if "no C compiler" in str(error):
            pytest.skip(str(error))
        raise
    return made

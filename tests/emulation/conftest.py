"""What tests of the emulated GPU have in common."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

HOST_TIME = Path(__file__).parent / "host_time" / "host_time.c"


@pytest.fixture(scope="session")
def host_time(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What to add to a program's environment so that its machine's time passes only where it sleeps."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        pytest.skip("no C compiler, which time by hand needs")
    library = tmp_path_factory.mktemp("host_time") / "host_time.so"
    flags = ["-std=c11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *flags, str(HOST_TIME), "-o", str(library)], check=True)
    return {"LD_PRELOAD": str(library)}

"""Where everything is in a node's file, as the C sources say, for tests that write nonsense there."""

import json
import os
import shlex
import struct
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from gpuyard.emulation.node.segment import path_of

NATIVE = Path(__file__).resolve().parents[3] / "native"


@lru_cache(maxsize=1)
def places() -> dict[str, int]:
    """Compile the program that knows, and ask it."""
    source = Path(__file__).with_name("places.c")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "places"
        compiler = shlex.split(os.environ.get("CC") or "cc")
        flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE / 'node'}"]
        subprocess.run([*compiler, *flags, source, "-o", program], check=True)
        found: dict[str, int] = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    return found


def of_gpu(field: str, gpu: int = 0) -> int:
    """Return where a field of a GPU is."""
    return places()["first_gpu"] + gpu * places()["gpu"] + places()[f"gpu.{field}"]


def of_client(field: str, client: int = 0) -> int:
    """Return where a field of a client of the first GPU is."""
    return of_gpu("clients") + client * places()["client"] + places()[f"client.{field}"]


def spoil(node: str, place: int, *numbers: float) -> None:
    """Write numbers where they do not belong."""
    with path_of(node).open("r+b") as file:
        file.seek(place)
        file.write(struct.pack(f"<{len(numbers)}d", *numbers))

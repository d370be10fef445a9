"""How a part that serves no HTTP tells its kubelet that it works: a file that it renews, which a probe looks at."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from gpuyard.core.steady_thread import SteadyThread

BEAT_S = 10.0
ANSWER_S = 5.0


def beat(file: Path) -> None:
    """Tell that all is well now, by the clock that all processes of a machine share and nobody sets."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_text(f"{time.monotonic():.3f}")
    beside.replace(file)


def why_not_alive(file: Path, within_s: float) -> str:
    """Empty if the file was renewed within this time, else what is wrong."""
    try:
        age_s = time.monotonic() - float(file.read_text())
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}"
    except ValueError:
        return f"{file} is no heartbeat"
    if not 0 <= age_s <= within_s:
        return f"{file} was renewed {age_s:.0f} s ago"
    return ""


def start_beating(file: Path, works: Callable[[], bool], say: Callable[[str], None]) -> SteadyThread:
    """Renew the file from a thread of its own, as long as it is found that the part works."""

    def keep() -> None:
        if works():
            beat(file)

    thread = SteadyThread("heartbeat", keep, BEAT_S, say)
    thread.start()
    return thread


def answers_lines(path: Path) -> bool:
    """Whether somebody at this unix socket answers a line by a line."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(ANSWER_S)
        try:
            asking.connect(str(path))
            asking.sendall(b"{}\n")
            return asking.recv(65536).endswith(b"\n")
        except OSError:
            return False

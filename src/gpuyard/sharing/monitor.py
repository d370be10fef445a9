"""Who shares which GPU of this machine right now, as values: for `gpuyard smi`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gpuyard.core.errors import InputError
from gpuyard.sharing.group import ClientState, Group, group_path


@dataclass(frozen=True)
class SharerReading:
    """One program at one GPU of a group."""

    group: str
    gpu: str
    controlled: bool
    pid: int
    command: str
    level: int
    state: str
    """running, waiting or idle."""
    sync_every: int
    window: int
    queued: int
    """Launches since everything was known to be done."""
    launches: int
    jobs_done: int
    preemptions: int
    waited_ms: float
    gpu_ms: float
    """As far as it has been seen to be done."""
    memory_bytes: int


def read_groups() -> list[SharerReading]:
    """Look at every group of this user."""
    prefix = group_path("x").name[:-1]
    names = sorted(path.name.removeprefix(prefix) for path in group_path("x").parent.glob(f"{prefix}*"))
    return [reading for name in names for reading in _read(name)]


def _read(name: str) -> list[SharerReading]:
    try:
        group = Group(name, watch=True)
    except InputError:
        return []  # it has just ended, or belongs to another version
    with closing(group):
        return [_reading(name, gpu.key, gpu.controlled, client) for gpu in group.gpus() for client in gpu.clients]


def _reading(group: str, gpu: str, controlled: bool, client: ClientState) -> SharerReading:
    state = "waiting" if client.waiting else "running" if client.active else "idle"
    return SharerReading(
        group=group,
        gpu=gpu,
        controlled=controlled,
        pid=client.pid,
        command=command_of(client.pid),
        level=client.terms.level,
        state=state,
        sync_every=client.terms.sync_every,
        window=client.terms.window,
        queued=client.queued,
        launches=client.launches,
        jobs_done=client.jobs_done,
        preemptions=client.preemptions,
        waited_ms=client.waited_ns / 1e6,
        gpu_ms=client.busy_ns / 1e6,
        memory_bytes=client.memory_used,
    )


def command_of(pid: int) -> str:
    """The command line of a process, its program without the folder; empty if it has just ended."""
    try:
        program, *rest = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return ""
    return " ".join([Path(program).name, *rest])

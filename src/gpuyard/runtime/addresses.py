"""How a scheduler is reached: over a unix socket on its machine, with TLS and a token between machines."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc

from gpuyard.client.session import OWN_CONNECTION
from gpuyard.core.errors import InputError
from gpuyard.runtime.access import CA, CLIENT, SCHEDULER_NAME, TOKEN, access_folder, read_secret
from gpuyard.runtime.process_ids import is_still

HERE = "127.0.0.1"
KEEPALIVE_MS = 10_000
"""After so long without a word the other side is asked whether it is there; it has as long to answer."""
CONNECTION = [
    ("grpc.keepalive_time_ms", KEEPALIVE_MS), ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
    ("grpc.http2.max_pings_without_data", 0),
]  # fmt: skip
_ADDRESS = "scheduler.json"
_OTHERS = 0o077


@dataclass(frozen=True)
class SchedulerAddress:
    """Where a scheduler listens, and where its callers find what it wants to see."""

    target: str
    """`unix:PATH`, or `HOST:PORT`."""
    access: str = ""
    """The folder with certificates and token; none for a socket, whose folder is closed to others."""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with every call."""
        if not self.access:
            return ()
        return (("authorization", f"Bearer {read_secret(Path(self.access) / TOKEN).decode()}"),)

    def write(self, state: Path) -> None:
        """Let agents find the scheduler of this run, wherever they are."""
        folder = access_folder(state)
        folder.mkdir(mode=0o700, exist_ok=True)
        fresh = folder / f".{_ADDRESS}"
        fresh.write_text(json.dumps({"target": self.target}))
        fresh.rename(folder / _ADDRESS)

    @classmethod
    def read(cls, state: Path) -> SchedulerAddress:
        """Where the scheduler of this run is; InputError if it was never started."""
        folder = access_folder(state)
        try:
            target = str(json.loads((folder / _ADDRESS).read_text())["target"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                "has no running scheduler", file=state, hint="'gpuyard run --state DIR' starts one"
            ) from None
        return cls(target, "" if target.startswith("unix:") else str(folder))


@dataclass(frozen=True)
class AgentSettings:
    """What an agent is told by the file that it is started with."""

    node: str
    number: int
    """How many agents its node has had: only the last one counts."""
    state: str
    """The run's folder, which all machines see under this name."""
    beat_s: float
    lease_s: float
    """For so long jobs go on without a scheduler, in seconds of the machine."""
    cpus: Sequence[int] = ()
    """The machine's CPUs that belong to this node; none: jobs are not held to any."""
    control_groups: Sequence[str] = ()
    """Below which groups are made that hold jobs to their memory and CPU time; none: they are not held to it."""
    host: str = HERE
    """By which processes on other nodes reach those of this one."""
    tunes: bool = False
    """Whether programs may let their batch sizes be chosen."""

    @property
    def socket(self) -> str:
        """Where processes of jobs reach the agent, which asks this; the kernel takes no long names.

        Each agent has its own: one that is about to end takes its socket away, not its successor's.
        """
        return self.socket_of(os.getpid())

    def socket_of(self, pid: int) -> str:
        """The same of an agent that is another process."""
        number = sum(map(ord, self.node))
        return str(sockets_folder(Path(self.state)) / f"{self.node[:20]}-{number}-{pid}")

    def write(self, path: Path) -> None:
        """Make the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> AgentSettings:
        """As the file says."""
        return cls(**json.loads(path.read_text()))


def open_channel(address: SchedulerAddress) -> grpc.Channel:
    """A channel to the scheduler."""
    options: list[tuple[str, Any]] = [*CONNECTION, *OWN_CONNECTION, ("grpc.enable_http_proxy", 0)]
    if not address.access:
        return grpc.insecure_channel(address.target, options)
    folder = Path(address.access)
    key = read_secret(folder / f"{CLIENT}.key")
    credentials = grpc.ssl_channel_credentials((folder / CA).read_bytes(), key, (folder / f"{CLIENT}.crt").read_bytes())
    options.append(("grpc.ssl_target_name_override", SCHEDULER_NAME))
    return grpc.secure_channel(address.target, credentials, options)


def sockets_folder(state: Path) -> Path:
    """A folder with a short name for the sockets of a run, closed to others: the kernel takes no long ones."""
    base = Path(tempfile.gettempdir()) / f"gpuyard-{os.getuid()}"
    folder = base / sha256(str(state.resolve()).encode()).hexdigest()[:12]
    for each in (base, folder):
        each.mkdir(mode=0o700, exist_ok=True)
        found = each.lstat()
        if found.st_uid != os.getuid() or found.st_mode & _OTHERS or each.is_symlink():
            rule = "belongs to somebody else, or is open to others"
            raise InputError(rule, file=each, hint="Remove it, or set TMPDIR")
    return folder


@dataclass(frozen=True)
class RunningScheduler:
    """A scheduler that users can ask, as it says itself."""

    state: str
    pid: int
    started: int
    address: SchedulerAddress

    def announce(self) -> None:
        """Let agents and users find it."""
        self.address.write(Path(self.state))
        path = sockets_folder(Path(self.state)) / "scheduler.json"
        path.write_text(json.dumps(asdict(self)))

    @property
    def lives(self) -> bool:
        """Whether its process is there."""
        return is_still(self.pid, self.started)


def find_scheduler(state: Path | None) -> RunningScheduler:
    """The scheduler with this state folder, or the only one of this user; InputError says how to name one."""
    base = Path(tempfile.gettempdir()) / f"gpuyard-{os.getuid()}"
    found = [_announced(path) for path in base.glob("*/scheduler.json")]
    living = [each for each in found if each is not None and each.lives]
    if state is not None:
        here = [each for each in living if each.state == str(state.resolve())]
        return here[0] if here else _elsewhere(state)
    if not living:
        raise InputError("no scheduler is running", hint="'gpuyard run' starts one")
    if len(living) > 1:
        known = ", ".join(each.state for each in living)
        raise InputError(f"several schedulers are running: {known}", hint="Name one with --state DIR")
    return living[0]


def _elsewhere(state: Path) -> RunningScheduler:
    """The scheduler of a folder that is shared with another machine, or was copied from there."""
    address = SchedulerAddress.read(state)
    if not address.access:
        raise InputError("has no running scheduler", file=state, hint="'gpuyard run --state DIR' starts one")
    return RunningScheduler(str(state.resolve()), 0, 0, address)


def _announced(path: Path) -> RunningScheduler | None:
    try:
        found = json.loads(path.read_text())
        return RunningScheduler(found["state"], found["pid"], found["started"], SchedulerAddress(**found["address"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None

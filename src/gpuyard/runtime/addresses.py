"""How a scheduler is reached: over a unix socket on its machine, with TLS and a token between machines."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import grpc

from gpuyard.core.errors import InputError
from gpuyard.runtime.process_ids import is_still

_OTHERS = 0o077


@dataclass(frozen=True)
class SchedulerAddress:
    """Where a scheduler listens, and what it wants to see. Files, not secrets: those stay out of arguments and logs."""

    target: str
    """`unix:PATH`, or `HOST:PORT`."""
    token_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with every call."""
        if not self.token_file:
            return ()
        return (("authorization", f"Bearer {Path(self.token_file).read_text().strip()}"),)


@dataclass(frozen=True)
class AgentSettings:
    """What an agent is told by the file that it is started with."""

    node: str
    socket: str
    scheduler: SchedulerAddress
    beat_s: float
    lease_s: float
    """For so long jobs go on without a scheduler, in seconds of the machine."""

    def write(self, path: Path) -> None:
        """Make the file."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> AgentSettings:
        """As the file says."""
        found = json.loads(path.read_text())
        return cls(**found | {"scheduler": SchedulerAddress(**found["scheduler"])})


def open_channel(address: SchedulerAddress) -> grpc.Channel:
    """A channel to the scheduler."""
    if not address.ca_file:
        return grpc.insecure_channel(address.target)
    files = (address.ca_file, address.key_file, address.certificate_file)
    read = [Path(each).read_bytes() if each else None for each in files]
    return grpc.secure_channel(address.target, grpc.ssl_channel_credentials(*read))


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
        """Let users of this machine find it."""
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
        living = [each for each in living if each.state == str(state.resolve())]
        if not living:
            raise InputError("has no running scheduler", file=state, hint="'gpuyard run --state DIR' starts one")
    if not living:
        raise InputError("no scheduler is running", hint="'gpuyard run' starts one")
    if len(living) > 1:
        known = ", ".join(each.state for each in living)
        raise InputError(f"several schedulers are running: {known}", hint="Name one with --state DIR")
    return living[0]


def _announced(path: Path) -> RunningScheduler | None:
    try:
        found = json.loads(path.read_text())
        return RunningScheduler(found["state"], found["pid"], found["started"], SchedulerAddress(**found["address"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None

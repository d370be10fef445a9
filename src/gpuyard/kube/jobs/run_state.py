"""What a run on Kubernetes must know to follow its jobs once more: everything else is in the cluster."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex

from gpuyard.core.errors import InputError
from gpuyard.kube import names

RUN_LABEL = names.PREFIX + "run"
"""A label of all TrainingJobs of a run, by which no two runs take each other's for their own."""
FILE = "kubernetes.json"


@dataclass(frozen=True)
class KubeRunState:
    """One run."""

    run: str
    """The value of the label."""
    namespace: str
    began_s: float
    """When its clock began, in seconds since 1970."""
    gangs: tuple[str, ...]
    """The names of its TrainingJobs, in the order of the workload."""

    @property
    def labels(self) -> dict[str, str]:
        """Of its TrainingJobs."""
        return {RUN_LABEL: self.run}

    @property
    def label(self) -> str:
        """By which these are selected."""
        return f"{RUN_LABEL}={self.run}"


def find_state(folder: Path, namespace: str, gangs: tuple[str, ...]) -> KubeRunState | None:
    """The state that a folder has; None if it has none; InputError for that of other jobs."""
    file = folder / FILE
    try:
        content = json.loads(file.read_text())
        found = KubeRunState(
            str(content["run"]), str(content["namespace"]), float(content["began_s"]), tuple(content["gangs"])
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"cannot be read: {error!r}", file=file, hint="Name another folder by --state") from None
    if (found.namespace, found.gangs) != (namespace, gangs):
        rule = f"is the state of a run of other jobs, or in another namespace ({found.namespace})"
        raise InputError(rule, file=file, hint="Name the same workload and namespace, or another folder by --state")
    return found


def new_state(namespace: str, gangs: tuple[str, ...]) -> KubeRunState:
    """A state of its own for a new run, which begins now."""
    return KubeRunState(token_hex(6), namespace, time.time(), gangs)


def begin_state(folder: Path, state: KubeRunState) -> None:
    """Keep the state of a new run, before anything is created."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{FILE}-{state.run}"
    hidden.write_text(json.dumps(asdict(state)))
    hidden.replace(folder / FILE)


def end_state(folder: Path) -> None:
    """Forget a run whose folder is written."""
    (folder / FILE).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()

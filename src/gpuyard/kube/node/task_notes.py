"""What a node daemon keeps of each task in a folder of its own, so that a restart changes nothing for anybody.

Most of all what a task is to do: a lease that was told holds while the API server is away.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuyard.kube.resources.records import read_record, write_record
from gpuyard.kube.resources.training_task import TaskWanted
from gpuyard.policies.multiplex.interference import Usage
from gpuyard.sharing.mix_samples import StepMean


@dataclass(frozen=True)
class TaskPod:
    """The pod of a container."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    model: str = ""
    compute: float = 0.0
    bandwidth: float = 0.0

    @property
    def usage(self) -> Usage:
        """How it uses a GPU, as its annotations say."""
        return Usage(self.model, self.compute, self.bandwidth)


@dataclass(frozen=True)
class LastWord:
    """How far a process was that has left."""

    step: int = 0
    saved_step: int = 0
    loaded_step: int = 0
    finished: bool = False


@dataclass(frozen=True)
class TaskNote:
    """What is known of a container for longer than this daemon lives."""

    pod: TaskPod | None = None
    wanted: TaskWanted | None = None
    """What it is to do; None until the API server has said."""
    generation: int = 0
    """Of what is wanted."""
    alone: StepMean | None = None
    """What its steps took while nobody else was on its GPU."""
    left: LastWord | None = None
    """What its process said when it ended; None while it has not."""


@dataclass(frozen=True)
class TaskNotes:
    """A folder with a file for each container, by its secret; only the daemon's user sees it."""

    folder: Path

    def read(self, secret: str) -> TaskNote:
        """What was kept of a container; nothing where nothing was, or nobody can understand it."""
        try:
            content = json.loads((self.folder / f"{secret}.json").read_text())
            times = content.get("alone")
            alone = StepMean(int(times[0]), float(times[1]), float(times[2])) if times else None
            wanted = read_record(TaskWanted, content["wanted"]) if content.get("wanted") else None
            pod = read_record(TaskPod, content["pod"]) if content.get("pod") else None
            left = read_record(LastWord, content["left"]) if content.get("left") else None
            return TaskNote(pod, wanted, int(content.get("generation") or 0), alone, left)
        except (OSError, ValueError, TypeError, AttributeError, IndexError, KeyError):
            return TaskNote()

    def write(self, secret: str, note: TaskNote) -> None:
        """Keep this; the file appears whole or not at all, OSError then."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        alone = note.alone
        content = {
            "pod": write_record(note.pod) if note.pod else None,
            "wanted": write_record(note.wanted) if note.wanted else None,
            "generation": note.generation,
            "left": write_record(note.left) if note.left else None,
            "alone": [alone.steps, alone.step_s, alone.error_s] if alone else None,
        }
        beside = self.folder / f".{secret}.{os.getpid()}"
        try:
            beside.write_text(json.dumps(content))
            beside.replace(self.folder / f"{secret}.json")
        except OSError:
            beside.unlink(missing_ok=True)
            raise

    def keep(self, secrets: Iterable[str]) -> None:
        """Forget all other containers."""
        present = {f"{secret}.json" for secret in secrets}
        for file in self.folder.glob("*.json"):
            if file.name not in present:
                file.unlink(missing_ok=True)

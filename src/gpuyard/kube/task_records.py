"""What the device plugin notes of each container for the node daemon: files that no container sees."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube.device_ids import by_gpu
from gpuyard.sharing.task_tuning import TaskPlace

SETTLED_S = 60.0
"""For so long a kubelet may not yet tell that a container has its devices."""


@dataclass(frozen=True)
class TaskRecords:
    """A folder with a file for each container that shares a GPU; its name is a secret that the container is given."""

    folder: Path

    def add(self, devices: Sequence[str]) -> str:
        """Note a container with these devices, all of one GPU; returns its secret."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = token_hex(16)
        beside = self.folder / f".{name}"
        beside.write_text(json.dumps(sorted(devices)))
        beside.replace(self.folder / f"{name}.json")
        return name

    def find(self, name: str) -> TaskPlace | None:
        """The place of a container by its secret; None if there is none."""
        if not re.fullmatch(r"[0-9a-f]{32}", name):
            return None
        try:
            devices = json.loads((self.folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        (gpu,) = by_gpu(devices)
        return TaskPlace(gpu, len(devices) * GB_OF_GIB)

    def keep(self, held: Iterable[Sequence[str]]) -> None:
        """Forget containers whose devices nobody holds any more."""
        present = {json.dumps(sorted(devices)) for devices in held}
        for file in self.folder.glob("*.json"):
            if time.time() - file.stat().st_mtime > SETTLED_S and file.read_text() not in present:
                file.unlink()

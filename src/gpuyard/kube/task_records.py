"""What the device plugin notes of each container for the node daemon: files that no container sees."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from gpuyard.core.errors import InputError
from gpuyard.core.units import GB_OF_GIB
from gpuyard.kube import names
from gpuyard.kube.device_ids import by_gpu
from gpuyard.kube.pod_devices import HeldDevices
from gpuyard.sharing.task_tuning import TaskPlace

SETTLED_S = 60.0
"""For so long a kubelet may not yet tell that a container has its devices."""


@dataclass(frozen=True)
class TaskRecords:
    """A folder with a file for each container with GPUs; its name is a secret that the container is given."""

    folder: Path

    def add(self, resource: str, devices: Sequence[str]) -> str:
        """Note a container with these devices; returns its secret. Who had the same ones before is gone."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        given = HeldDevices(resource, tuple(sorted(devices)))
        for before in [name for name, held in self.all().items() if held == given]:
            (self.folder / f"{before}.json").unlink(missing_ok=True)
        name = token_hex(16)
        beside = self.folder / f".{name}"
        beside.write_text(json.dumps({"resource": resource, "devices": given.ids}))
        beside.replace(self.folder / f"{name}.json")
        return name

    def read(self, name: str) -> HeldDevices | None:
        """What a container was given, by its secret; None if there is none, OSError where nobody can say that now."""
        if not re.fullmatch(r"[0-9a-f]{32}", name):
            return None
        try:
            noted = json.loads((self.folder / f"{name}.json").read_text())
            held = HeldDevices(str(noted["resource"]), tuple(noted["devices"]))
            by_gpu(held.ids)
        except (FileNotFoundError, ValueError, KeyError, TypeError, InputError):
            return None
        return held

    def find(self, name: str) -> TaskPlace | None:
        """The place of a container that shares a GPU, by its secret; None if there is none."""
        held = self.read(name)
        if held is None or held.resource == names.WHOLE_GPUS:
            return None
        (gpu,) = by_gpu(held.ids)
        return TaskPlace(gpu, len(held.ids) * GB_OF_GIB)

    def all(self) -> dict[str, HeldDevices]:
        """What all containers were given, by their secrets."""
        found = {file.stem: self.read(file.stem) for file in self.folder.glob("*.json")}
        return {name: held for name, held in found.items() if held is not None}

    def keep(self, held: Iterable[Sequence[str]]) -> None:
        """Forget containers whose devices nobody holds any more."""
        present = {tuple(sorted(devices)) for devices in held}
        for file in self.folder.glob("*.json"):
            try:
                noted, age_s = self.read(file.stem), time.time() - file.stat().st_mtime
            except OSError:  # it may be read the next time: whoever runs with it is not forgotten for that
                continue
            if age_s > SETTLED_S and (noted is None or noted.ids not in present):
                file.unlink(missing_ok=True)

"""The deployment in force, kept in a folder, so that a server that is started again goes on with it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gpuyard.core.errors import InputError
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.deployment_files import load_plan, save_plan
from gpuyard.profiles.step_files import write_whole

PLAN, ORIGIN = "deployment.json", "origin.json"


class StateFolder:
    """Remembers which deployment a server has come to, beginning with what."""

    def __init__(self, folder: Path, origin: bytes) -> None:
        """`origin` is what the server was asked to serve; for anything else, the folder's deployment does not count."""
        self._folder = folder
        self._digest = hashlib.sha256(origin).hexdigest()

    def load(self) -> Deployment | None:
        """The deployment that was in force when a server with the same origin ended."""
        try:
            known = json.loads((self._folder / ORIGIN).read_text(encoding="utf-8")).get("sha256")
            return load_plan(self._folder / PLAN) if known == self._digest else None
        except (OSError, ValueError, AttributeError, InputError):
            return None  # there is none, or it is of no use: the origin is

    def save(self, deployment: Deployment) -> None:
        """Keep a deployment, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        save_plan(deployment, self._folder / PLAN)
        write_whole(self._folder / ORIGIN, json.dumps({"sha256": self._digest}) + "\n")

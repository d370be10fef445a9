"""The deployment in force, kept in a folder, so that a server that is started again goes on with it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from gpuyard.core.errors import InputError
from gpuyard.policies.partition.deployment import Deployment
from gpuyard.policies.partition.deployment_files import load_plan, save_plan
from gpuyard.profiles.step_files import write_whole
from gpuyard.serving.notes import note

PLAN, ORIGIN = "deployment.json", "origin.json"


class StateFolder:
    """Remembers which deployment a server has come to, beginning with what."""

    def __init__(self, folder: Path, origin: bytes) -> None:
        """`origin` is what the server was asked to serve; for anything else, the folder's deployment does not count."""
        self._folder = folder
        self._digest = hashlib.sha256(origin).hexdigest()
        self._handle: int | None = None

    def take(self) -> None:
        """Keep the folder for this process, to its end; raises InputError if it cannot be written or is another's."""
        from gpuyard.results.locks import claim

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._handle = claim(self._folder)
        except OSError as error:
            raise self._refusal(f"cannot be a state folder: {error.strerror}") from None
        if self._handle is None:
            raise self._refusal("is the state folder of another server that runs: each needs one of its own")
        try:
            write_whole(self._folder / ".probe", self._digest)
            (self._folder / ".probe").unlink()
        except InputError as error:
            raise self._refusal(error.rule) from None

    def _refusal(self, rule: str) -> InputError:
        return InputError(rule, field="state", value=str(self._folder))

    def load(self) -> Deployment | None:
        """The deployment that was in force when a server with the same origin ended; a damaged one is told of."""
        try:
            return load_plan(self._folder / PLAN) if self._known() == self._digest else None
        except InputError as error:
            note(f"the state folder is damaged and does not count: {error}")
            return None

    def _is_ours(self) -> bool:
        try:
            return self._known() == self._digest
        except InputError:
            return False

    def _known(self) -> str | None:
        """Of what origin the deployment is."""
        path = self._folder / ORIGIN
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["sha256"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise InputError(f"cannot be read: {' '.join(str(error).split())}", file=path) from None

    def save(self, deployment: Deployment) -> None:
        """Keep a deployment, whole or not at all; no other is taken for it, wherever this ends."""
        if not self._is_ours():
            with suppress(OSError):
                (self._folder / ORIGIN).unlink(missing_ok=True)
        save_plan(deployment, self._folder / PLAN)
        write_whole(self._folder / ORIGIN, json.dumps({"sha256": self._digest}) + "\n")

    def keep(self, deployment: Deployment) -> None:
        """Save a deployment if that is possible: a full disk is told of, and no reason to serve nobody."""
        try:
            self.save(deployment)
        except InputError as error:
            note(f"the plan in force is not kept: {error}")

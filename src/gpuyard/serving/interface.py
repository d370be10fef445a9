"""What both HTTP and gRPC offer of the front end, beside inference."""

from __future__ import annotations

from typing import Any

from gpuyard._version import __version__
from gpuyard.serving.front import Front
from gpuyard.serving.protocol.contract import VERSION, Contract
from gpuyard.serving.protocol.errors import ProtocolError, Status
from gpuyard.serving.protocol.inference import check_version

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "parameters", "statistics")

READY = "READY"


class Interface:
    """Answers about the server and its models, as objects of JSON."""

    def __init__(self, front: Front) -> None:
        self.front = front

    def server_metadata(self) -> dict[str, Any]:
        """Who answers."""
        return {"name": "gpuyard", "version": __version__, "extensions": list(EXTENSIONS)}

    def contract(self, name: str, version: str = "") -> Contract:
        """A model of this version."""
        found = self.front.contract(name)
        check_version(version)
        return found

    def is_ready(self, name: str, version: str = "") -> bool:
        """Whether a model answers requests."""
        self.contract(name, version)
        there = self.front.deployment is not None and not self.front.draining
        return there and self.front.unloaded_part(name) is None

    def config(self, name: str, version: str = "") -> dict[str, Any]:
        """A model's configuration, with the batches of the plan in force."""
        contract, deployment = self.contract(name, version), self.front.deployment
        slices = deployment.plan.slices if deployment is not None else ()
        return contract.config([turn.batch for part in slices for turn in part.turns if str(turn.service) == name])

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """What became of requests, of one model or of all."""
        if name:
            self.contract(name, version)
        found = {name: self.front.statistics[name]} if name else self.front.statistics
        return {"model_stats": [each.told(model) for model, each in found.items()]}

    def index(self, only_ready: bool = False) -> list[dict[str, str]]:
        """All models that there are."""
        found = [self._indexed(name) for name in self.front.contracts]
        return [each for each in found if each["state"] == READY or not only_ready]

    def _indexed(self, name: str) -> dict[str, str]:
        if self.is_ready(name):
            return {"name": name, "version": VERSION, "state": READY, "reason": ""}
        why = "unloaded" if self.front.unloaded_part(name) is not None else "not ready"
        return {"name": name, "version": VERSION, "state": "UNAVAILABLE", "reason": why}

    def load(self, name: str) -> None:
        """Answer requests for a model again."""
        self._known(name)
        self.front.unloaded.discard(name)

    def unload(self, name: str) -> None:
        """Answer no more requests for a model; its slices stay, until a plan has none for it."""
        self._known(name)
        self.front.unloaded.add(name)

    def _known(self, name: str) -> None:
        try:
            self.front.contract(name)
        except ProtocolError as error:
            raise ProtocolError(Status.INVALID, f"{error}. Only services of the plan can be loaded") from None

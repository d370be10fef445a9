"""Writes the status of objects: not often, at once where something decisive has changed, and never twice the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from gpuyard.kube.client.api import Api
from gpuyard.kube.json_objects import JsonObject

SPACING_S = 2.0
QUIET_S = 30.0
"""How old the time may become at which something was heard, where nothing else changes."""
NEVER_ALONE = ("lastHeard", "observedAt")


@dataclass(frozen=True)
class _Written:
    status: JsonObject
    decisive: Hashable
    at: float
    uid: str


class StatusWriter:
    """Remembers what each object says."""

    def __init__(self, api: Api, clock: Callable[[], float]) -> None:
        self._api, self._clock = api, clock
        self._written: dict[str, _Written] = {}
        self._tried: dict[str, float] = {}

    def offer(self, path: str, uid: str, status: JsonObject, decisive: Hashable) -> None:
        """Write a status if it is time; ApiError if that fails, and then not again at once."""
        now, before = self._clock(), self._written.get(path)
        if before is not None and before.uid == uid:
            fresh = decisive != before.decisive
            quiet = _without_times(status) == _without_times(before.status)
            if not fresh and now - before.at < (QUIET_S if quiet else SPACING_S):
                return
            if status == before.status:
                return
        if now - self._tried.get(path, -SPACING_S) < SPACING_S:
            return
        self._tried[path] = now
        self._api.patch(path, {"metadata": {"uid": uid}, "status": status})
        del self._tried[path]
        self._written[path] = _Written(status, decisive, now, uid)


def _without_times(content: Any) -> Any:
    if isinstance(content, list):
        return [_without_times(each) for each in content]
    if isinstance(content, dict):
        return {key: _without_times(each) for key, each in content.items() if key not in NEVER_ALONE}
    return content

"""What followers of the API server tell of one list: kept for a world that begins, and posted to the one that is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Hear = Callable[[T | None, T | None], None]
"""Told what a thing was and what it is now; None where it was not there, or is gone."""


class Inbox(Generic[T]):
    """One list (`ListFollower`). What cannot be read is left out."""

    def __init__(self, read: Callable[[dict[str, Any]], T]) -> None:
        self._read, self._lock = read, threading.Lock()
        self._things: dict[str, T] = {}
        self._hear: Hear[T] | None = None

    def connect(self, hear: Hear[T] | None) -> list[T]:
        """From now on tell this of each change; what is there at this moment."""
        with self._lock:
            self._hear = hear
            return list(self._things.values())

    def replace(self, items: list[dict[str, Any]]) -> None:
        """All that is there."""
        with self._lock:
            found = {_key(item): self._read(item) for item in items}
            for key in [key for key in self._things if key not in found]:
                self._tell(self._things.pop(key), None)
            for key, thing in found.items():
                self._set(key, thing)

    def change(self, item: dict[str, Any], *, gone: bool) -> None:
        """One thing."""
        with self._lock:
            if not gone:
                self._set(_key(item), self._read(item))
                return
            self._things.pop(_key(item), None)
            self._tell(self._read(item), None)

    def _set(self, key: str, thing: T) -> None:
        before = self._things.get(key)
        if before != thing:
            self._things[key] = thing
            self._tell(before, thing)

    def _tell(self, before: T | None, now: T | None) -> None:
        if self._hear is not None:
            self._hear(before, now)


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"

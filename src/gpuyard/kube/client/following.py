"""Follows a list of the API server: all that is there, and then each change, for as long as it is wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from gpuyard.core.errors import GpuyardError
from gpuyard.kube.client.api import Api

AGAIN_S = 1.0
"""How long to wait after a list could not be had, or its watch broke."""
PAGE = 500


class ListFollower(Protocol):
    """Who is told what is in a list."""

    def replace(self, items: list[dict[str, Any]]) -> None:
        """All that is there now; what was told before and is not among it has gone."""
        ...

    def change(self, item: dict[str, Any], *, gone: bool) -> None:
        """One has come, changed or gone."""
        ...


class Following:
    """A thread that follows one list."""

    def __init__(self, api: Api, path: str, follower: ListFollower, say: Callable[[str], None], **query: str) -> None:
        self._api, self._path, self._follower, self._say, self._query = api, path, follower, say, query
        self._over = threading.Event()
        self.listed = threading.Event()
        """Set once all that is there has been told."""
        self._thread = threading.Thread(target=self._follow, name=f"follow {path}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Do not begin another watch; the thread ends with the one that goes on."""
        self._over.set()

    def list_now(self) -> str:
        """Tell all that is there now, and return the version of the list."""
        items: list[dict[str, Any]] = []
        query = {**self._query, "limit": str(PAGE)}
        while True:
            page = self._api.get(self._path, **query)
            items += page.get("items") or []
            more = page["metadata"].get("continue")
            if not more:
                break
            query["continue"] = more
        self._follower.replace(items)
        self.listed.set()
        return str(page["metadata"]["resourceVersion"])

    def _follow(self) -> None:
        version, said = "", ""
        while not self._over.is_set():
            try:
                if not version:
                    version, said = self.list_now(), ""
                version = self._watch(version)
            except Exception as error:  # of a follower, too: who is told no more would go by what is long over
                version = ""  # what happened meanwhile may not be told any more: begin with all that is there
                told = str(error) if isinstance(error, GpuyardError) else repr(error)
                if said != (said := told):  # a list that cannot be had is one line, not one a second
                    self._say(f"following {self._path} again: {told}")
                self._over.wait(AGAIN_S)

    def _watch(self, version: str) -> str:
        for event in self._api.watch(self._path, version, self._query):
            item = event["object"]
            version = str(item["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                self._follower.change(item, gone=event["type"] == "DELETED")
            if self._over.is_set():
                break
        return version

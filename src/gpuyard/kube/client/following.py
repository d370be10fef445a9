"""Follows a list of the API server: all that is there, and then each change, for as long as it is wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gpuyard.core.steady_thread import SteadyThread
from gpuyard.kube.client.api import Api, ApiError

STALE_S = 10.0
"""For so long a list may be away until what is known of it is too old."""
PAGE = 500


class ListFollower(Protocol):
    """Who is told what is in a list. An item of which it can make nothing it may refuse by any exception."""

    def replace(self, items: list[dict[str, Any]]) -> None:
        """All that is there now; what was told before and is not among it has gone."""
        ...

    def change(self, item: dict[str, Any], *, gone: bool) -> None:
        """One has come, changed or gone."""
        ...


class Following:
    """A thread that follows one list. An item that cannot be read is left out; it ends the list for nobody."""

    def __init__(
        self,
        api: Api,
        path: str,
        follower: ListFollower,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        **query: str,
    ) -> None:
        self._api, self._path, self._follower, self._say, self._query = api, path, follower, say, query
        self._version = ""
        """Up to which the list has been told; empty: it is to be told anew."""
        self._left_out: dict[str, str] = {}
        """By name, why items that are there could not be read."""
        self._over = threading.Event()
        self.listed = threading.Event()
        """Set once all that is there has been told."""
        self._thread = SteadyThread(f"following {path}", self.step, 0.0, say, clock)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Do not begin another watch; the thread ends with the one that goes on."""
        self._over.set()
        self._thread.stop()

    @property
    def name(self) -> str:
        """What it does."""
        return self._thread.name

    @property
    def gone(self) -> bool:
        """Whether nobody follows any more, though nobody wanted that."""
        return self._thread.gone

    @property
    def trouble(self) -> str:
        """Why what is known of the list is too old; empty while it is followed."""
        return self._thread.trouble(STALE_S)

    def step(self) -> None:
        """Tell all that is there, or from then on each change, until the watch ends."""
        if not self._version:
            self._version = self.list_now()
            return
        version, self._version = self._version, ""  # if it breaks, what happened meanwhile may not be told any more
        self._version = self._watch(version)

    def list_now(self) -> str:
        """Tell all that is there now, and return the version of the list; ApiError if it cannot be had."""
        items: list[dict[str, Any]] = []
        query = {**self._query, "limit": str(PAGE)}
        while True:
            page = self._api.get(self._path, **query)
            items += page.get("items") or []
            version, more = _version_of(page), page["metadata"].get("continue")
            if not more:
                break
            query["continue"] = more
        self._tell_all(items)
        self.listed.set()
        return version

    def _tell_all(self, items: list[dict[str, Any]]) -> None:
        """Tell the follower of all of them; if it refuses that, of those that it takes one by one."""
        try:
            self._follower.replace(items)
            self._left_out.clear()
        except Exception:  # whatever it is: which item it is for is seen next
            refused = {position for position, item in enumerate(items) if not self._tell(item, gone=False)}
            left = [item for position, item in enumerate(items) if position not in refused]
            self._follower.replace(left)
            names = {_name_of(items[position]) for position in refused}
            self._left_out = {name: why for name, why in self._left_out.items() if name in names}

    def _tell(self, item: dict[str, Any], *, gone: bool) -> bool:
        """Tell the follower of an item; False, and a word the first time, if it cannot read it."""
        name = _name_of(item)
        try:
            self._follower.change(item, gone=gone)
        except Exception as error:  # whoever wrote that item: it is not to hold up the others
            if self._left_out.get(name) != (why := repr(error)):
                self._left_out[name] = why
                self._say(f"{name} in {self._path} is left out, as it cannot be read: {why}")
            return False
        self._left_out.pop(name, None)
        return True

    def _watch(self, version: str) -> str:
        for event in self._api.watch(self._path, version, self._query):
            item = event["object"]
            version = _version_of(item)
            if event["type"] != "BOOKMARK":
                self._tell(item, gone=event["type"] == "DELETED")
            if self._over.is_set():
                break
        return version


def _version_of(thing: Mapping[str, Any]) -> str:
    """The version of an object or a list; ApiError if it says none."""
    try:
        return str(thing["metadata"]["resourceVersion"])
    except (KeyError, TypeError):
        raise ApiError(0, "what the API server answered has no version") from None


def _name_of(item: Any) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    return "/".join(str(known[key]) for key in ("namespace", "name") if known.get(key)) or "something without a name"

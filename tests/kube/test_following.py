"""A list of the API server is followed, whatever happens to the watch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.kube.waiting import until

from gpuyard.kube.client import following
from gpuyard.kube.client.access import ApiAccess
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.client.following import Following
from gpuyard.kube.guarded import Guarded

Json = dict[str, Any]


def thing(name: str, version: int = 1) -> Json:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


class Told:
    """What a follower was told."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def replace(self, items: list[Json]) -> None:
        self.words.append("all: " + " ".join(each["metadata"]["name"] for each in items))

    def change(self, item: Json, *, gone: bool) -> None:
        self.words.append(f"{'gone' if gone else 'now'}: {item['metadata']['name']}")


class ScriptedApi(Api):
    """Lists in pages of one, and watches as they are written down."""

    def __init__(self, names: list[str], watches: list[list[Json | ApiError]]) -> None:
        super().__init__(ApiAccess("nowhere", 1))
        self.names, self.watches, self.asked = names, watches, list[str]()

    def get(self, path: str, **query: str) -> Json:
        number = int(query.get("continue", "0"))
        more = str(number + 1) if number + 1 < len(self.names) else ""
        items = [thing(self.names[number])] if self.names else []
        return {"metadata": {"resourceVersion": "10", "continue": more}, "items": items}

    def watch(self, path: str, version: str, query: Mapping[str, str], *, seconds: int = 0) -> Iterator[Json]:
        self.asked.append(version)
        if not self.watches:
            raise ApiError(410, "too old")
        for event in self.watches.pop(0):
            if isinstance(event, ApiError):
                raise event
            yield event


def followed(api: ScriptedApi, wanted: int) -> list[str]:
    told = Told()
    follow = Following(api, "/things", told, lambda text: None)
    follow.start()
    until(lambda: len(told.words) >= wanted)
    follow.stop()
    return told.words[:wanted]


def test_all_pages_are_told_at_once_and_then_each_change() -> None:
    events: list[Json | ApiError] = [
        {"type": "ADDED", "object": thing("c", 11)},
        {"type": "BOOKMARK", "object": thing("", 12)},
        {"type": "DELETED", "object": thing("a", 13)},
    ]
    api = ScriptedApi(["a", "b"], [events, []])
    assert followed(api, 3) == ["all: a b", "now: c", "gone: a"]
    until(lambda: len(api.asked) >= 2)
    assert api.asked[:2] == ["10", "13"]  # a watch that ended goes on from where it was


def test_after_a_watch_that_broke_everything_is_told_anew(monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "AGAIN_S", 0.0)
    api = ScriptedApi(["a"], [[{"type": "ADDED", "object": thing("b", 11)}, ApiError(410, "too old")]])
    assert followed(api, 3) == ["all: a", "now: b", "all: a"]


def test_a_follower_that_fails_once_is_told_everything_anew(monkeypatch: Any) -> None:
    monkeypatch.setattr(following, "AGAIN_S", 0.0)
    api, told, said = ScriptedApi(["a"], [[{"type": "MODIFIED", "object": thing("b", 11)}], []]), Told(), list[str]()
    usual, failing = told.change, iter([True])

    def change(item: Json, *, gone: bool) -> None:
        if next(failing, False):
            raise KeyError("metadata")
        usual(item, gone=gone)

    told.change = change  # type: ignore[method-assign]
    follow = Following(api, "/things", told, said.append)
    follow.start()
    until(lambda: len(told.words) >= 2)
    follow.stop()
    assert told.words[:2] == ["all: a", "all: a"]
    assert "KeyError" in said[0]


def test_a_step_that_fails_is_said_once_in_a_row_and_ends_nothing() -> None:
    said: list[str] = []
    raised: Iterator[Exception | None] = iter([ValueError("a"), ValueError("a"), None, ApiError(403, "no"), None])

    def step() -> None:
        error = next(raised)
        if error is not None:
            raise error

    guarded = Guarded("it waits", step, said.append)
    for _ in range(5):
        guarded()
    assert said == ["it waits: ValueError('a'); it goes on", "it waits: no; it goes on"]

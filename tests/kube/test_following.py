"""A list of the API server is followed, whatever happens to the watch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from tests.kube.waiting import until

from gpuyard.core import steady_thread
from gpuyard.kube.client import following
from gpuyard.kube.client.access import ApiAccess
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.client.following import Following

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
    monkeypatch.setattr(steady_thread, "AGAIN_S", 0.0)
    api = ScriptedApi(["a"], [[{"type": "ADDED", "object": thing("b", 11)}, ApiError(410, "too old")]])
    assert followed(api, 3) == ["all: a", "now: b", "all: a"]


class Choosy(Told):
    """Cannot read some items."""

    def _read(self, item: Json) -> None:
        if item["metadata"]["name"].startswith("bad"):
            raise OverflowError("cannot convert float infinity to integer")

    def replace(self, items: list[Json]) -> None:
        for item in items:
            self._read(item)
        super().replace(items)

    def change(self, item: Json, *, gone: bool) -> None:
        self._read(item)
        super().change(item, gone=gone)


def test_an_item_that_cannot_be_read_is_left_out_with_a_word_and_the_others_are_told() -> None:
    events: list[Json | ApiError] = [
        {"type": "MODIFIED", "object": thing("bad", 11)},
        {"type": "ADDED", "object": thing("c", 12)},
        {"type": "DELETED", "object": thing("worse", 13) | {"spec": None}},
        {"type": "ADDED", "object": thing("bad-2", 14)},
    ]
    told, said = Choosy(), list[str]()
    follow = Following(ScriptedApi(["a", "bad", "b"], [events]), "/things", told, said.append)
    follow.step()
    assert (told.words[-1], follow.listed.is_set()) == ("all: a b", True)
    follow.step()
    assert told.words[-2:] == ["now: c", "gone: worse"]
    assert [each.partition(" ")[0] for each in said] == ["bad", "bad-2"]
    follow.list_now()  # as who begins to lead does
    assert len(said) == 2
    assert "left out, as it cannot be read: OverflowError" in said[0]


class Garbled(ScriptedApi):
    """Answers with something else than a list."""

    def get(self, path: str, **query: str) -> Json:
        return {"kind": "Status"}


def test_an_answer_that_is_no_list_is_an_error_of_the_api_server_and_asked_for_again() -> None:
    now, told = [0.0], Told()
    api = Garbled(["a"], [])
    follow = Following(api, "/things", told, lambda text: None, lambda: now[0])
    with pytest.raises(ApiError):
        follow.list_now()
    assert not follow._thread.step()
    now[0] = following.STALE_S
    assert "has no version" in follow.trouble
    api.get = partial(ScriptedApi.get, api)  # type: ignore[method-assign]
    assert follow._thread.step()
    assert (follow.trouble, told.words) == ("", ["all: a"])
    assert not follow._thread.step()  # its watch cannot be had: a list that is told anew is never old
    assert not follow.trouble


@pytest.mark.parametrize("event", [{"type": "ADDED", "object": {}}, {"type": "ADDED", "object": {"metadata": []}}])
def test_a_watch_that_tells_nonsense_begins_anew(event: Json) -> None:
    told = Told()
    follow = Following(ScriptedApi(["a"], [[event]]), "/things", told, lambda text: None)
    assert [follow._thread.step() for _ in range(3)] == [True, False, True]
    assert told.words == ["all: a", "all: a"]

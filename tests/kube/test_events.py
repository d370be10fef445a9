"""People are told what was done and why, and never too often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.api_server import ApiStandIn, api_server

from gpuyard.kube.events import AGAIN_S, CHANGE_S, MOST_AT_ONCE, MOST_LETTERS, MOST_WAITING, EventRecorder, ObjectRef

POD = ObjectRef("Pod", "a", "lab", "uid-a")


class Telling:
    """A recorder before an API server, with a clock that a test moves."""

    def __init__(self, server: ApiStandIn) -> None:
        self.server, self.now = server, 0.0
        self.notes: list[str] = []
        self.recorder = EventRecorder(
            server.api, self.notes.append, clock=lambda: self.now, wall=lambda: 1_000_000_000 + self.now
        )

    def after(self, seconds: float, *messages: str) -> list[tuple[str, int]]:
        """Say these words about a pod, later; returns all events with their counts."""
        self.now += seconds
        for message in messages:
            self.recorder.tell(POD, "NoGpu", message)
        self.recorder.step()
        return [(each["message"], each["count"]) for each in self.events()]

    def events(self) -> list[dict[str, Any]]:
        return [thing for path, thing in self.server.objects.items() if "/events/" in path]


@pytest.fixture
def telling() -> Iterator[Telling]:
    with api_server() as server:
        yield Telling(server)


def test_an_event_says_about_whom_what_why_and_when(telling: Telling) -> None:
    telling.recorder.tell(POD, "GpuChosen", "GPU 1 of node n1", "Normal")
    assert telling.recorder.step() == 1
    (event,) = telling.events()
    assert event["metadata"]["namespace"] == "lab"
    assert event["metadata"]["name"].startswith("a.")
    assert event["involvedObject"] == {
        "apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": "lab", "uid": "uid-a",
    }  # fmt: skip
    assert (event["reason"], event["message"], event["type"]) == ("GpuChosen", "GPU 1 of node n1", "Normal")
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2001-09-09T01:46:40Z"


def test_an_object_without_a_namespace_has_its_events_in_the_usual_one(telling: Telling) -> None:
    telling.recorder.tell(ObjectRef("SharedGPU", "n1-0", api_version="gpuyard.io/v1alpha1"), "Tuned", "so")
    telling.recorder.step()
    (event,) = telling.events()
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]


def test_what_was_said_in_the_same_words_counts_up_in_time_and_other_words_are_another_event(telling: Telling) -> None:
    assert telling.after(0, "full") == [("full", 1)]
    assert telling.after(AGAIN_S - 1, "full") == [("full", 1)]
    assert telling.after(1, "full") == [("full", 2)]
    assert telling.after(CHANGE_S, "fuller") == [("full", 2), ("fuller", 1)]


def test_words_that_change_quickly_wait_and_the_last_of_them_is_told(telling: Telling) -> None:
    telling.after(0, "9 free")
    assert telling.after(1, "8 free", "7 free") == [("9 free", 1)]
    assert telling.after(1, "6 free") == [("9 free", 1)]
    assert telling.after(CHANGE_S - 2) == [("9 free", 1), ("6 free", 1)]
    telling.after(1, "5 free")
    assert telling.after(CHANGE_S, "6 free") == [("9 free", 1), ("6 free", 1)]  # it is again as was told


def test_an_event_that_has_gone_meanwhile_is_told_anew(telling: Telling) -> None:
    telling.after(0, "full")
    telling.server.objects.clear()
    assert telling.after(AGAIN_S, "full") == [("full", 1)]


def test_a_refusal_is_one_line_and_the_next_word_is_told(telling: Telling) -> None:
    telling.server.fails = lambda method, path: 403
    telling.after(0, "one")
    assert telling.after(1, "two") == []
    assert telling.notes == ["events cannot be told: it failed"]
    assert telling.recorder.lost == 2
    telling.server.fails = lambda method, path: None
    assert telling.after(1, "two") == [("two", 1)]


def test_long_words_are_cut_and_long_names_stay_names(telling: Telling) -> None:
    telling.recorder.tell(POD._replace(name=f"{'a' * 199}-{'b' * 50}"), "Long", "x" * 5000)
    telling.recorder.step()
    (event,) = telling.events()
    assert len(event["message"]) == MOST_LETTERS
    assert event["metadata"]["name"].startswith("a" * 199 + ".")


def test_a_storm_is_bounded_in_what_waits_and_in_what_is_sent_at_a_time(telling: Telling) -> None:
    for number in range(MOST_WAITING + 7):
        telling.recorder.tell(POD._replace(name=f"p{number}"), "NoGpu", "full")
    assert telling.recorder.lost == 7
    assert telling.recorder.step() == len(telling.events()) == MOST_AT_ONCE


@given(st.lists(st.tuples(st.floats(0, 300), st.sampled_from("abc")), max_size=40))
def test_nothing_is_told_twice_within_its_time_and_the_last_word_is_told_in_the_end(
    said: list[tuple[float, str]],
) -> None:
    with api_server() as server:
        telling = Telling(server)
        for pause, word in said:
            before = sum(each["count"] for each in telling.events())
            now = sum(count for _, count in telling.after(pause, word))
            assert now - before <= 1
            assert now <= 1 + telling.now / CHANGE_S
        if said:
            telling.after(AGAIN_S)
            last = max(telling.server.events, key=lambda event: event[0])
            assert last[3]["message"] == said[-1][1]

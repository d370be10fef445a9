"""Tells people what was done about an object, and why: events of Kubernetes, as `kubectl describe` shows them.

Telling never blocks or fails whoever tells: what waits is bounded, the newest word about the same thing takes the place
of an older one that was not sent yet, and what an API server refuses is lost. The same is not told again and again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.parse import quote

from gpuyard.kube.amounts import moment
from gpuyard.kube.client.api import Api, ApiError
from gpuyard.kube.json_objects import JsonObject
from gpuyard.kube.objects import GpuPod

NORMAL, WARNING = "Normal", "Warning"
COMPONENT = "gpuyard"
MOST_WAITING = 1000
"""Of events that were not sent yet; what comes then is lost."""
MOST_REMEMBERED = 8192
"""Of what was told: about so many things at a time nothing is told twice."""
PAUSE_S, MOST_AT_ONCE = 1.0, 50
"""So many are sent each time, and then there is a pause: no storm of events reaches an API server."""
CHANGE_S = 10.0
"""Another word about the same thing is told after this long at the earliest."""
AGAIN_S = 600.0
"""The same word is told again after this long, by a higher count of the same event."""
MOST_LETTERS = 1000
"""Of a message; an API server takes 1024."""
NO_NAMESPACE = "default"
"""Where events of objects are that have no namespace."""


class ObjectRef(NamedTuple):
    """An object that something is told about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class _Word(NamedTuple):
    """What is to be told."""

    about: ObjectRef
    reason: str
    message: str
    kind: str


class _Told(NamedTuple):
    """What was told, as which event, how often, and when last."""

    word: _Word
    event: str
    times: int
    at: float


class EventRecorder:
    """Tells events about objects: whoever has something to tell does not wait, and steps do it."""

    def __init__(
        self,
        api: Api,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._api, self.say, self._clock, self._wall = api, say, clock, wall
        self._lock = threading.Lock()
        self._waiting: OrderedDict[tuple[ObjectRef, str], _Word] = OrderedDict()
        self._told: OrderedDict[tuple[ObjectRef, str], _Told] = OrderedDict()
        self._failing = False
        self.lost = 0
        """How many were never told, as too many waited or the API server did not take them."""

    def tell(self, about: ObjectRef, reason: str, message: str, kind: str = NORMAL) -> None:
        """Have it told: a word in CamelCase and a sentence; what was told lately in the same words is not."""
        word, key = _Word(about, reason, message[:MOST_LETTERS], kind), (about, reason)
        with self._lock:
            told = self._told.get(key)
            if told is not None and told.word == word and self._clock() - told.at < AGAIN_S:
                self._waiting.pop(key, None)  # it is again as was told before
            elif key in self._waiting or len(self._waiting) < MOST_WAITING:
                self._waiting[key] = word
            else:
                self.lost += 1

    def step(self) -> int:
        """Send what is due, a bounded number of events; returns how many there were."""
        due = self._take()
        for word in due:
            self._send(word)
        return len(due)

    def _take(self) -> list[_Word]:
        now = self._clock()
        with self._lock:
            due = [key for key in self._waiting if key not in self._told or now - self._told[key].at >= CHANGE_S]
            return [self._waiting.pop(key) for key in due[:MOST_AT_ONCE]]

    def _send(self, word: _Word) -> None:
        key, now = (word.about, word.reason), moment(self._wall())
        before = self._told.get(key)
        try:
            if before is not None and before.word == word and self._count(before, now):
                told = before._replace(times=before.times + 1, at=self._clock())
            else:
                told = _Told(word, self._create(word, now), 1, self._clock())
        except ApiError as error:
            self.lost += 1
            if not self._failing:  # one line, not one for each
                self.say(f"events cannot be told: {error}")
            self._failing = True
            return
        self._failing = False
        with self._lock:
            self._told[key] = told
            self._told.move_to_end(key)
            while len(self._told) > MOST_REMEMBERED:
                self._told.popitem(last=False)

    def _create(self, word: _Word, now: str) -> str:
        event = _event(word, now)
        self._api.post(_folder(word.about), event)
        return str(event["metadata"]["name"])

    def _count(self, before: _Told, now: str) -> bool:
        """Count an event once more; False if it is gone by now."""
        change = {"count": before.times + 1, "lastTimestamp": now}
        try:
            self._api.patch(f"{_folder(before.word.about)}/{quote(before.event, safe='')}", change)
        except ApiError as error:
            if not error.not_found:
                raise
            return False
        return True


def about_pod(pod: GpuPod) -> ObjectRef:
    """A pod, to tell something about."""
    return ObjectRef("Pod", pod.name, pod.namespace, pod.uid)


def _folder(about: ObjectRef) -> str:
    return f"/api/v1/namespaces/{quote(about.namespace or NO_NAMESPACE, safe='')}/events"


def _event(word: _Word, now: str) -> JsonObject:
    about = word.about
    involved: dict[str, Any] = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name}
    involved |= {"namespace": about.namespace} if about.namespace else {}
    involved |= {"uid": about.uid} if about.uid else {}
    beginning = about.name[:200].rstrip("-.")  # the name of an event has at most 253 letters
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{beginning}.{token_hex(8)}", "namespace": about.namespace or NO_NAMESPACE},
        "involvedObject": involved,
        "reason": word.reason,
        "message": word.message,
        "type": word.kind,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": COMPONENT},
    }

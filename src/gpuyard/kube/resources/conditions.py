"""Conditions: what is true of an object, and why, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


@dataclass(frozen=True)
class Condition:
    """One thing that is, is not, or may be true."""

    type: Annotated[str, "What may be true."] = ""
    status: Annotated[str, "Whether it is.", {"enum": [TRUE, FALSE, UNKNOWN]}] = UNKNOWN
    reason: Annotated[str, "Why, in one word for programs."] = ""
    message: Annotated[str, "Why, in words for people."] = ""
    last_transition_time: Annotated[str | None, "Since when the status is this one.", {"format": "date-time"}] = None


def condition(kind: str, true: bool, reason: str, message: str) -> Condition:
    """A condition of which nobody knows yet since when."""
    return Condition(kind, TRUE if true else FALSE, reason, message)


def since(before: Iterable[Condition], wanted: Iterable[Condition], now: str) -> tuple[Condition, ...]:
    """The conditions as they are now; the time of a status that was the same before stays."""
    known = {each.type: each for each in before}
    return tuple(replace(each, last_transition_time=_since(known.get(each.type), each, now)) for each in wanted)


def _since(before: Condition | None, wanted: Condition, now: str) -> str:
    same = before is not None and before.status == wanted.status
    return (before.last_transition_time or now) if same and before is not None else now


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of a type, if there is one."""
    return next((each for each in conditions if each.type == kind), None)

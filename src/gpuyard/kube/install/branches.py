"""What an object is under either answer to some questions, as one tree that has the questions where they matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tree = Any
"""JSON with `Branch` in it."""
Decided = Mapping[str, bool]


@dataclass(frozen=True)
class Absent:
    """Nothing: a key that is not there."""


@dataclass(frozen=True)
class Branch:
    """One of two, by the answer to a question."""

    question: str
    yes: Tree
    no: Tree


@dataclass(frozen=True)
class Items:
    """Neighbours in a list."""

    items: tuple[Tree, ...]


@dataclass(frozen=True)
class Text:
    """A text of several lines."""

    lines: tuple[Tree, ...]


ABSENT = Absent()


def tree_of(questions: Sequence[str], made: Callable[[Decided], Tree], answers: Decided | None = None) -> Tree:
    """All that is made, whatever the answers are."""
    answers = answers or {}
    if not questions:
        return made(answers)
    first, *rest = questions
    return joined(first, *(tree_of(rest, made, {**answers, first: answer}) for answer in (True, False)))


def joined(question: str, yes: Tree, no: Tree) -> Tree:
    """One tree of two, which asks only where they differ."""
    if yes == no:
        return yes
    if isinstance(yes, dict) and isinstance(no, dict):
        keys = list(dict.fromkeys([*yes, *no]))
        return {key: joined(question, yes.get(key, ABSENT), no.get(key, ABSENT)) for key in keys}
    if isinstance(yes, list) and isinstance(no, list):
        return _joined_lists(question, yes, no)
    if isinstance(yes, Text) and isinstance(no, Text):
        return Text(tuple(_joined_lists(question, list(yes.lines), list(no.lines))))
    if isinstance(yes, Branch) and isinstance(no, Branch) and yes.question == no.question:
        return Branch(yes.question, joined(question, yes.yes, no.yes), joined(question, yes.no, no.no))
    return Branch(question, yes, no)


def with_texts(tree: Tree) -> Tree:
    """The same, in which texts of several lines can differ line by line."""
    if isinstance(tree, dict):
        return {key: with_texts(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [with_texts(value) for value in tree]
    return Text(tuple(tree.split("\n"))) if isinstance(tree, str) and "\n" in tree else tree


def _joined_lists(question: str, yes: list[Tree], no: list[Tree]) -> list[Tree]:
    if len(yes) == len(no):
        return [joined(question, *pair) for pair in zip(yes, no, strict=True)]
    begin = _alike(yes, no)
    end = _alike(yes[begin:][::-1], no[begin:][::-1])
    middle = [Items(tuple(each[begin : len(each) - end])) for each in (yes, no)]
    return [*yes[:begin], Branch(question, middle[0], middle[1]), *yes[len(yes) - end :]]


def _alike(one: Sequence[Tree], other: Sequence[Tree]) -> int:
    """How many are the same from the beginning on."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count

"""Trees with questions and placeholders in them, written as templates of Helm."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from gpuyard.kube.install.branches import ABSENT, Branch, Items, Text, Tree

Expressions = Mapping[str, str]
"""By what stands for a value in objects, the expression of a template that gives it. A list's stands for its items."""


class TemplateWriter:
    """Writes one object after the other."""

    def __init__(self, expressions: Expressions, questions: Expressions) -> None:
        """`questions` has the condition of each question of a tree."""
        self._expressions, self._questions = expressions, questions
        longest_first = sorted(expressions, key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, longest_first)))

    def template(self, tree: Tree) -> str:
        """The template of an object, which may be none."""
        return "".join(f"{line}\n" for line in self._either(tree, self._block))

    def _either(self, tree: Tree, write: Callable[[Tree], Iterator[str]]) -> Iterator[str]:
        """What is written for a tree, or for both sides of a branch."""
        if not isinstance(tree, Branch):
            if tree is not ABSENT:
                yield from write(tree)
            return
        sides = (tree.yes, tree.no)
        condition = self._questions[tree.question]
        if tree.yes is ABSENT or tree.yes == Items(()):
            sides, condition = (tree.no, ABSENT), f"not ({condition})"
        yield f"{{{{- if {condition} }}}}"
        yield from self._either(sides[0], write)
        if sides[1] is not ABSENT and sides[1] != Items(()):
            yield "{{- else }}"
            yield from self._either(sides[1], write)
        yield "{{- end }}"

    def _block(self, tree: Tree) -> Iterator[str]:
        if isinstance(tree, dict):
            for key, value in tree.items():
                yield from self._either(value, lambda one, key=key: self._entry(key, one))  # type: ignore[misc]
        elif isinstance(tree, list):
            for value in tree:
                yield from self._either(value, self._item)
        else:
            yield self._scalar(tree)

    def _entry(self, key: str, value: Tree) -> Iterator[str]:
        name = json.dumps(key) if not re.fullmatch(r"[\w.-]+", key) else key
        if not isinstance(value, dict | list) or not value or self._whole(value):
            yield from self._inline(f"{name}: ", value)
            return
        yield f"{name}:"
        yield from _indented(self._block(value), "  " if isinstance(value, dict) else "")

    def _item(self, value: Tree) -> Iterator[str]:
        if isinstance(value, Items):
            for each in value.items:
                yield from self._either(each, self._item)
            return
        spliced = self._expression(value)
        if spliced is not None and spliced.startswith("each "):
            yield f"{{{{- range {spliced.removeprefix('each ')} }}}}"
            yield "- {{ toJson . }}"
            yield "{{- end }}"
            return
        if not isinstance(value, dict | list) or not value:
            yield from self._inline("- ", value)
            return
        lines = list(_indented(self._block(value), "  "))
        if lines[0].startswith("{{-"):
            yield "-"
            yield from lines
        else:
            yield f"- {lines[0][2:]}"
            yield from lines[1:]

    def _inline(self, before: str, value: Tree) -> Iterator[str]:
        """A value on the line of its name, or below it if it is a text of several lines."""
        if isinstance(value, Text):
            yield f"{before}|-"
            for line in value.lines:
                yield from _indented(self._either(line, self._lines), "  ")
        else:
            yield before + self._scalar(value)

    def _whole(self, value: Tree) -> bool:
        """Whether it stands for a list or mapping of the values, and nothing else."""
        return isinstance(value, list | dict) and len(value) == 1 and self._splice_of(value) is not None

    def _splice_of(self, value: Tree) -> str | None:
        found = self._expression(next(iter(value)))
        return found.removeprefix("each ") if found is not None and found.startswith("each ") else None

    def _expression(self, value: Tree) -> str | None:
        """The expression that a value stands for; of an object, by its only key."""
        if isinstance(value, dict) and len(value) == 1:
            value = next(iter(value))
        return self._expressions.get(str(value)) if isinstance(value, str | int | float) else None

    def _scalar(self, value: Tree) -> str:
        if isinstance(value, list | dict):
            return f"{{{{ toJson {self._splice_of(value)} }}}}" if self._whole(value) else json.dumps(value)
        if isinstance(value, bool) or value is None:
            return json.dumps(value)
        alone = self._expression(value)
        if alone is not None:
            if isinstance(value, str):  # a number may stand in a text
                alone += " | toString | toJson" if value.isdecimal() else " | toJson"
            return f"{{{{ {alone} }}}}"
        if not isinstance(value, str):
            return json.dumps(value)
        found = self._marks.findall(value)
        if not found:
            return json.dumps(value)
        form = self._marks.sub("%v", value.replace("%", "%%"))
        return (
            f"{{{{ printf {json.dumps(form)} {' '.join(f'({self._expressions[each]})' for each in found)} | toJson }}}}"
        )

    def _lines(self, text: Tree) -> Iterator[str]:
        """Lines as they are, with values in them."""
        for line in text.items if isinstance(text, Items) else [text]:
            yield self._marks.sub(lambda found: f"{{{{ {self._expressions[found[0]]} }}}}", line)


def _indented(lines: Iterator[str], by: str) -> Iterator[str]:
    """Lines further in; those that only decide stay, as nothing of them is written."""
    for line in lines:
        yield line if line.startswith("{{-") else by + line

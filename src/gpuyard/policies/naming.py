"""Policies as they are written, `name:option=value,…`, and the options that a policy declares.

Every kind of policy is named this way, on the command line and in files. A policy is a frozen dataclass that declares
each of its options with `option`; nothing else needs to know them. Every program that is emulated imports this module,
so it imports little itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from math import inf
from typing import Any, Protocol, TypeVar

from gpuyard.core.errors import InputError, nearest
from gpuyard.core.units import PLAIN, amount

SPANS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
"""Units of short times."""

Found = TypeVar("Found")

_WRITTEN = re.compile(r"\s*(?P<name>(?:(?!:[^:=]*=).)*?\.py:[^:]*|[^:]*)(?::(?P<options>.*))?", re.DOTALL)
"""A policy of one's own is `file.py:Name`, and options may follow that too; one may also be the value of an option."""
_OPTION = "gpuyard option"


@dataclass(frozen=True)
class PolicyName:
    """A policy's name and its options, as they were written."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        """Write it as `parse` reads it."""
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name


def parse(text: str, where: str = "policy") -> PolicyName:
    """Read `name[:option=value,…]`; `where` says in errors which of the user's choices this is."""
    match = _WRITTEN.fullmatch(text)
    name, rest = (match["name"].strip(), match["options"]) if match else (text, None)
    options: dict[str, str] = {}
    for part in rest.split(",") if rest is not None else []:
        key, _, value = (piece.strip() for piece in part.partition("="))
        if not key:
            raise InputError(f"is not an option of {name}: write option=value", field=where, value=part)
        if not value:
            raise InputError(f"lacks a value: write {key}=…", field=where, value=key)
        if key in options:
            raise InputError("is given twice", field=where, value=key)
        options[key] = value
    return PolicyName(name, options)


class OptionKind(Protocol):
    """What the value of an option may be."""

    def read(self, text: str, where: str) -> Any:
        """Turn what is written into a value, or say which rule it breaks."""

    def write(self, value: Any) -> str:
        """Turn a value into what `read` reads."""


@dataclass(frozen=True)
class Quantity:
    """A number within limits, with a unit if there are several."""

    rule: str
    """What is said of a number beyond the limits, as in "is not a positive time"."""
    units: Mapping[str, float] = field(default_factory=lambda: PLAIN)
    written_in: str = ""
    least: float = 0.0
    most: float = inf

    def read(self, text: str, where: str) -> float:
        """Read a number and its unit."""
        value = amount(text, dict(self.units), where)
        if not self.least <= value <= self.most:
            raise InputError(self.rule, field=where, value=text)
        return value

    def write(self, value: float) -> str:
        """Write a number without an exponent, to nine places."""
        return f"{value / self.units[self.written_in]:.9f}".rstrip("0").rstrip(".") + self.written_in


@dataclass(frozen=True)
class Choice:
    """One word of several."""

    words: tuple[str, ...]

    def read(self, text: str, where: str) -> str:
        """Return the word if it is one of them."""
        if text not in self.words:
            raise InputError(f"is not one of {', '.join(self.words)}", field=where, value=text,
                             hint=nearest(text, self.words))  # fmt: skip
        return text

    def write(self, value: str) -> str:
        """Return the word."""
        return value


@dataclass(frozen=True)
class OtherPolicy:
    """A policy of another kind by its name; the registry finds it, and gives it in its place."""

    kind: str

    def read(self, text: str, where: str) -> str:  # noqa: ARG002  the registry says what is wrong with it
        """Return the name."""
        return text

    def write(self, value: Any) -> str:
        """Return the name; one of a user's own is called as its class."""
        return value if isinstance(value, str) else type(value).__name__


def option(name: str, default: Any, kind: OptionKind) -> Any:
    """Declare a dataclass field as an option of its policy: its written name, its default and what it may be."""
    return field(default=default, metadata={_OPTION: (name, kind)})


def options_of(policy: object) -> dict[str, tuple[str, OptionKind]]:
    """Return attribute and kind of every option that a policy, or a class of them, declares, by written name."""
    declared = fields(policy) if is_dataclass(policy) else ()
    found = [(each.name, *each.metadata[_OPTION]) for each in declared if _OPTION in each.metadata]
    return {name: (attribute, kind) for attribute, name, kind in found}


def option_values(written: PolicyName, policy: object, where: str = "policy") -> dict[str, Any]:
    """Read the options that were written for a policy; return their values by attribute."""
    declared = options_of(policy)
    values: dict[str, Any] = {}
    for name, text in written.options.items():
        if name not in declared:
            hint = nearest(name, declared) if declared else f"{written.name} has no options"
            raise InputError(f"is not an option of {written.name}", field=where, value=name, hint=hint)
        attribute, kind = declared[name]
        values[attribute] = kind.read(text, f"{where}, {name}")
    return values


def look_up(name: str, known: Mapping[str, Found], what: str, where: str = "policy") -> Found:
    """Find something by its name; `what` says in the error what it is not, as in "an order"."""
    if name not in known:
        raise InputError(f"is not {what}", field=where, value=name, hint=nearest(name, known))
    return known[name]


def written(name: str, policy: object) -> PolicyName:
    """Return a policy's name with all of its options, as `parse` and `option_values` read them."""
    declared = options_of(policy).items()
    return PolicyName(name, {key: kind.write(getattr(policy, attribute)) for key, (attribute, kind) in declared})

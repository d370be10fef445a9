"""Every error that gpuyard raises on purpose.

GpuyardError
 ├─ InputError         something the user gave is wrong: a file, a value, a name
 │   └─ WriteError     a result cannot be written: the disk is full, or not to be written to
 ├─ LedgerError        a plan asks for more than is free; a policy is at fault
 ├─ StallError         a simulation can no longer make progress
 ├─ MissingExtraError  a feature needs a package that is not installed
 └─ MissingLibraryError  a feature needs a library in C that cannot be compiled here
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class GpuyardError(Exception):
    """Root of all errors raised on purpose; the command line prints it without a traceback."""


class InputError(GpuyardError):
    """A value from outside breaks a rule; says where, what, which rule, and what to do next."""

    def __init__(
        self,
        rule: str,
        *,
        file: object = None,
        row: int | None = None,
        field: str | None = None,
        value: object = None,
        hint: str | None = None,
    ) -> None:
        self.rule, self.file, self.row, self.field, self.value, self.hint = rule, file, row, field, value, hint
        where = [str(file)] if file is not None else []
        where += [f"row {row}"] if row is not None else []
        where += [f"field {field}"] if field is not None else []
        text = ", ".join(where) + ": " if where else ""
        text += f"{_told(value)} " if value is not None else ""
        super().__init__(text + rule + (f". {hint}" if hint else ""))

    def located(self, file: object, row: int | None = None) -> InputError:
        """The same error, with the file and row that whoever found it did not know."""
        row = self.row if row is None else row
        return InputError(self.rule, file=file, row=row, field=self.field, value=self.value, hint=self.hint)


MOST_TOLD = 500
"""Characters of a value in an error: what was written by mistake may be a whole file."""


def _told(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}… ({len(text)} characters)"


class WriteError(InputError):
    """A result cannot be written where the user wants it; the next one could not either."""


class LedgerError(GpuyardError):
    """A plan takes what is not free, or returns what is not held."""


class StallError(GpuyardError):
    """Jobs remain, and nothing that can still happen will ever run them."""


class MissingExtraError(GpuyardError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the '{extra}' extra: pip install 'gpuyard[{extra}]'")


class MissingLibraryError(GpuyardError):
    """A library in C is not there and cannot be compiled."""

    def __init__(self, lost: str, library: str, why: str) -> None:
        super().__init__(f"{lost}: {library} was not built: {why}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known names are closest to a mistyped one, for use as a hint."""
    names = sorted(known)
    return closest(name, names) or "Known: " + ", ".join(names)


def closest(name: str, known: Iterable[str]) -> str:
    """Ask whether a known name was meant that is close to this one; nothing if none is."""
    spelled = {each.lower(): each for each in sorted(known, reverse=True)}
    close = [spelled[match] for match in get_close_matches(str(name).lower(), sorted(spelled), n=3, cutoff=0.5)]
    return "Did you mean " + " or ".join(repr(match) for match in close) + "?" if close else ""

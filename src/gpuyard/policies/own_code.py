"""Code of the user's own: whatever it raises becomes one line that names the user's file and row.

`sys.exit` in a policy counts as a failure too: it would end gpuyard as if all had gone well.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, extract_tb
from types import CodeType
from typing import Any

import numpy as np

from gpuyard.core.errors import GpuyardError, InputError

PACKAGE = str(Path(__file__).resolve().parents[1])
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def is_own(part: object) -> bool:
    """Whether a part of a policy, a function or an object, is not one of gpuyard's."""
    home = part if hasattr(part, "__code__") else type(part)
    return not str(getattr(home, "__module__", "")).startswith("gpuyard.")


def own_failure(
    error: BaseException, rule: str, *, file: object = None, field: str = "policy", value: object = None
) -> InputError:
    """An error in a user's code as one line: the rule, what was raised, and the last row of the user's before it."""
    line = _own_line(error)
    rule = f"{rule} {type(error).__name__}: {error}"
    if line is None:
        return InputError(rule, file=file, row=getattr(error, "lineno", None), field=field, value=value)
    said = f", in {line.name}: {line.line}" if line.line else ""
    return InputError(rule + said, file=line.filename, row=line.lineno, field=field, value=value)


@contextmanager
def own_code(policy: str, *parts: object) -> Iterator[None]:
    """Run a policy of these parts; what a user's part raises, or makes gpuyard raise, is an InputError."""
    try:
        yield
    except (GpuyardError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise policy_failure(error, policy, *parts) from error


def policy_failure(error: BaseException, policy: str, *parts: object) -> InputError:
    """What a policy of these parts raised, or made gpuyard raise, as one line."""
    own = [part for part in parts if is_own(part)]
    if _own_line(error) is not None or not own:
        return own_failure(error, "raised", value=policy)
    return own_answer(f"gave an answer that cannot be used: {type(error).__name__}: {error}", policy, *own)


def own_answer(rule: str, policy: str, *parts: object) -> InputError:
    """Say what is wrong with an answer of a user's code that raised nothing itself, and where that code begins."""
    code = next(filter(None, map(_code_of, parts)), None)
    if code is None:
        return InputError(rule, field="policy", value=policy)
    return InputError(rule, file=code.co_filename, row=code.co_firstlineno, field="policy", value=policy)


def not_numbers(given: Any, count: int) -> str:
    """Say what an answer is instead of an array of so many numbers; empty where it is one."""
    if isinstance(given, np.ndarray) and given.shape == (count,) and given.dtype.kind in "biuf":
        return ""
    is_array = isinstance(given, np.ndarray)
    what = f"an array of shape {given.shape} of {given.dtype}" if is_array else type(given).__name__
    return f"an array of shape {(count,)} of numbers, not {what}"


def _own_line(error: BaseException) -> FrameSummary | None:
    """The last row of the user's on the way to an error; of an installed policy the first, which called libraries."""
    outside = [
        frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith((PACKAGE, "<frozen"))
    ]
    own = [frame for frame in outside if not frame.filename.startswith(_LIBRARIES)]
    return own[-1] if own else next(iter(outside), None)


def _code_of(part: object) -> CodeType | None:
    """The code of a function, or of the first method that an object's class defines."""
    if not is_own(part):
        return None
    functions = [part, *vars(type(part)).values()]
    return next((code for code in (getattr(each, "__code__", None) for each in functions) if code is not None), None)

"""Whether client and server tell the same story: the server's own statistics before and after a load."""

from __future__ import annotations

from typing import Any

from gpuyard.serving.load.questions import Counted


def compare(found: dict[str, Any], before: Counted, after: Counted, batch: int) -> dict[str, Any]:
    """A server's counts over a load beside the client's, and in words what does not fit.

    Requests that failed may have been answered to nobody: the server counts them as it likes, or not at all.
    """
    succeeded, refused = after.succeeded - before.succeeded, after.failed - before.failed
    rows = after.rows - before.rows
    unsure = found["failed"]
    differences = [
        _difference("answered", found["answered"], succeeded, unsure),
        _difference("refused", found["refused"], refused, unsure),
        _difference("inferences", found["answered"] * batch, rows, unsure * batch),
    ]
    spent_ns = after.succeeded_ns - before.succeeded_ns
    return {
        "server_answered": succeeded,
        "server_refused": refused,
        "server_inferences": rows,
        "server_mean_ms": spent_ns / succeeded / 1e6 if succeeded else None,
        "differences": [each for each in differences if each],
    }


def _difference(what: str, here: int, there: int, unsure: int) -> str:
    if here <= there <= here + unsure:
        return ""
    doubt = f" ({unsure} failed here, and may count there)" if unsure else ""
    return f"{what}: {here} here, {there} by the server's count{doubt}"

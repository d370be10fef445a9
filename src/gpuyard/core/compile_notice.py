"""Says that kernels are being compiled: nobody should wonder for a minute what their program does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from numba.core import event

COMPILING = "Compiling the simulator, once for each version of it: about three minutes…"
NOT_KEPT = (
    "note: the compiled code cannot be kept, for want of a folder that only you can write to; "
    "XDG_CACHE_HOME or GPUYARD_KERNEL_CACHE may name one"
)

_event: Any = event


class CompileNotice(_event.Listener):  # type: ignore[misc]
    """Hears from numba of each compilation, not of code loaded from disk, and says so on stderr, once in a process."""

    def __init__(self, remark: str = "") -> None:
        self.quiet = False
        self.compiled = 0
        self._remark = remark
        self._watched: set[Callable[..., Any]] = set()

    def watch(self, function: Callable[..., Any]) -> None:
        """Speak when this function is compiled; other programs in the process may use numba too."""
        self._watched.add(function)

    def on_start(self, event: Any) -> None:
        """Numba begins to compile a function."""
        if event.data["dispatcher"].py_func in self._watched:
            self.compiled += 1
            if self.compiled == 1 and not self.quiet:
                print("\n".join(filter(None, [COMPILING, self._remark])), file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Numba has compiled a function; nothing to say."""

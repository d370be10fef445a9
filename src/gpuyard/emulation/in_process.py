"""Emulated GPUs in the Python process that asks for them."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuyard.core.errors import MissingExtraError
from gpuyard.emulation.report import combine, uncaught_error
from gpuyard.emulation.run_folder import Ending, reserved, save_run
from gpuyard.emulation.session import Session
from gpuyard.emulation.settings import Settings

if TYPE_CHECKING:
    from gpuyard.results import Reservation


def emulate(gpus: str = "A100", *, as_cuda: bool = True, out: Path | str | None = None, **settings: Any) -> Session:
    """Emulate GPUs in this process from now on, for `device="emu"` and, unless told otherwise, for `torch.cuda`.

    `settings` are those of `gpuyard emulate`: clock, speed, profile, sharing, memory_limit, jitter, seed, compute, …
    With `out`, what happens is kept as that run folder: it is written when the session is closed, or at the end.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError("gpuyard.emulate", "torch")
    from gpuyard.emulation.torch.activate import activate

    with ExitStack() as kept:
        place = kept.enter_context(reserved(out))
        if place is not None and not settings.get("report"):
            settings["report"] = kept.enter_context(tempfile.TemporaryDirectory(prefix="gpuyard-"))
        session = activate(Settings(gpus=gpus, **settings), as_cuda=as_cuda)
        if place is not None:
            _save_at_close(session, place, kept.pop_all())
    return session


def _save_at_close(session: Session, place: Reservation, kept: ExitStack) -> None:
    """Let the session write its run folder when it is closed, and give up what was kept for that."""
    began, folder = time.monotonic(), Path(session.settings.report)

    def save() -> None:
        with kept:
            error = uncaught_error()
            ending = Ending(1 if error else None, error == KeyboardInterrupt.__name__, os.getpid())
            kinds = [kind.key for kind in session.machine]
            report = combine(folder, session.settings.gpus, kinds, time.monotonic() - began)
            save_run(place, sys.orig_argv, session.settings, ending, report, folder)

    session.on_close.append(save)

"""`gpuyard cancel`."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuyard.cli.output import say
from gpuyard.cli.queue import StateOption


def cancel(job: Annotated[str, typer.Argument(metavar="JOB", help="Its id.")], *, state: StateOption = None) -> None:
    """End a job of a running scheduler; it may save first, and is not started again."""
    from gpuyard.runtime.addresses import find_scheduler
    from gpuyard.runtime.asking import cancel as ask

    say(f"{job}: {ask(find_scheduler(state), job)}")

"""What the operator of a server should know, and no client asks for."""

from __future__ import annotations

import sys
from contextlib import suppress


def note(text: str) -> None:
    """Say it in one line."""
    with suppress(OSError):  # nobody may be there to read it
        print(f"note: {text}", file=sys.stderr, flush=True)

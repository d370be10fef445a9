"""Options that several allocations have."""

from __future__ import annotations

from typing import Any

from gpuyard.policies.naming import Choice, option

PLACEMENT_NAMES = ("first-fit", "consolidating", "best-fit")


def placement_option() -> Any:
    """Declare which node takes a job: `tune:placement=first-fit`."""
    return option("placement", "best-fit", Choice(PLACEMENT_NAMES))

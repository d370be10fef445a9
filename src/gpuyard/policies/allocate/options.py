"""Options that several allocations have."""

from __future__ import annotations

from typing import Any

from gpuyard.policies.naming import Choice, option
from gpuyard.policies.placement import SHIPPED


def placement_option() -> Any:
    """Declare which node takes a job: `tune:placement=first-fit`."""
    return option("placement", "best-fit", Choice(SHIPPED))

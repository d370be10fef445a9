"""Options that several allocations have."""

from __future__ import annotations

from typing import Any

from gpuyard.policies.naming import OtherPolicy, option


def placement_option() -> Any:
    """Declare which node takes a job: `tune:placement=first-fit`, or `tune:placement=file.py:Name`."""
    return option("placement", "best-fit", OtherPolicy("placement"))

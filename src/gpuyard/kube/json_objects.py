"""Objects of Kubernetes as JSON has them."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]

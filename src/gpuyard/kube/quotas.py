"""Quotas of tenants as one line: what a command and the values of an installation take."""

from __future__ import annotations

import re

from gpuyard.core.errors import InputError


def read_quotas(text: str, field: str) -> dict[str, float]:
    """Most GPUs by tenant, of a text such as `research=16,teaching=4`."""
    quotas: dict[str, float] = {}
    for each in filter(None, text.split(",")):
        tenant, _, gpus = each.partition("=")
        if not tenant or not re.fullmatch(r"\d{1,9}(\.\d{1,3})?", gpus) or tenant in quotas:
            raise InputError("must be TENANT=GPUS, once for each tenant", field=field, value=each)
        quotas[tenant] = float(gpus)
    return quotas

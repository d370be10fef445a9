"""How `gpuyard plan` shows a plan, and one beside another."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuyard.cli.output import Format, emit, say

if TYPE_CHECKING:
    from gpuyard.policies.partition.what_if import Outlook

SHOWN = ("service", "model", "batch", "rate", "headroom", "predicted_latency_ms", "slo_ms")
"""Of each turn, in a table."""
SHOWN_PART = 1e-4
"""Of requests: less is not told in digits."""


def show_plan(told: dict[str, Any], format: Format) -> None:
    """Print a plan."""
    if format == Format.json:
        _dump(told)
        return
    rows = [
        {name: each[name] for name in ("gpu", "share", "duty_ms")} | {name: model[name] for name in SHOWN}
        for each in told["slices"] for model in each["models"]
    ]  # fmt: skip
    emit(rows, format)
    if format == Format.table:
        _say_more(told)


def _say_more(told: dict[str, Any]) -> None:
    say(f"{told['gpus_used']} GPU{'' if told['gpus_used'] == 1 else 's'} used")
    _say_missed(told)
    for each in told["applications"]:
        if each["predicted_latency_ms"] is not None:
            latency, slo_ms = each["predicted_latency_ms"], each["slo_ms"]
            say(f"{each['application']}: answers within {latency:.1f} ms, SLO {slo_ms:g} ms")
    for each in told["violations"]:
        say(f"not kept: {each}")
    for each in told["unserved"]:
        what = f"{each['rate']:g} requests/s of {each['service']}" if each["rate"] else each["service"]
        say(f"not {'served' if each['rate'] else 'promised'}: {what}: {each['reason']}")
    if "moves" in told:
        count = len(told["moves"])
        say(f"{count or 'no'} move{'' if count == 1 else 's'}{':' if count else ''}")
        for each in told["moves"]:
            say(f"  {each}")


def _say_missed(told: dict[str, Any]) -> None:
    """How many requests at random are missed, of the service where it is the most."""
    expected = {each["service"]: each["expected_missed"] for each in told["services"] if each["expected_missed"]}
    if expected:
        worst = max(expected, key=lambda name: expected[name])
        part = expected[worst]
        most = f"{part:.2%} of {worst}" if part >= SHOWN_PART else f"{SHOWN_PART:.2%} of any service"
        say(f"expected of requests at random: at most {most} not in time")


def show_outlooks(present: Outlook, others: Sequence[tuple[str, Outlook]], format: Format) -> None:
    """Print key figures of the present plan and of what would be."""
    named = [("present", present), *others]
    rows = [{"plan": name} | _figures(each) for name, each in named]
    if format == Format.json:
        _dump({"outlooks": [row | {"moves": [str(move) for move in each.moves]}
                            for row, (_, each) in zip(rows, named, strict=True)]})  # fmt: skip
        return
    emit(rows, format)
    if format == Format.table:
        for _, each in others:
            for move in each.moves:
                say(f"  {move}")


def _figures(of: Outlook) -> dict[str, Any]:
    plan = of.deployment.plan
    return {
        "requests_per_s": sum(each.rate_per_s for each in of.deployment.services),
        "fits": not plan.unserved,
        "gpus_used": plan.gpus,
        "least_headroom": of.least_room,
        "fits_until_factor": of.fits_until,
        "moves": len(of.moves),
    }


def _dump(value: dict[str, Any]) -> None:
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")

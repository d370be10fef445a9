"""How a run shows itself in Python: one line at a prompt, a small table in a notebook."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

LONGEST = 60
"""Letters of a text from outside, such as a cluster or a command, that one line has room for."""


def one_line(info: dict[str, Any], summary: dict[str, Any], path: Path | None) -> str:
    """Say what was run, on what, how much of it there was, and where it is kept."""
    parts = [_subject(info), *_amounts(summary), "not saved" if path is None else str(path)]
    return f"Run({', '.join(parts)})"


def html_table(info: dict[str, Any], summary: dict[str, Any], path: Path | None) -> str:
    """Return the figures as a table of two columns; whatever they say, it is text and nothing else."""
    rows = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th><td>{html.escape(_cell(value))}</td></tr>'
        for name, value in summary.items()
        if value is not None and name != "run"
    )
    return f"<table><caption>{html.escape(one_line(info, summary, path))}</caption><tbody>{rows}</tbody></table>"


def _subject(info: dict[str, Any]) -> str:
    command, cluster = info.get("command"), info.get("cluster")
    what = " ".join(map(str, command)) if isinstance(command, list) else info.get("policy") or info.get("world", "run")
    where = info.get("gpus") if cluster is None else cluster.get("text") if isinstance(cluster, dict) else cluster
    return _short(str(what)) + (f" on {_short(str(where))}" if where else "")


def _amounts(summary: dict[str, Any]) -> list[str]:
    forms = {"jobs": "{:,} measured jobs", "mean_jct_h": "mean JCT {:.2f} h"}
    forms |= {"steps": "{:,} steps", "gpu_s": "{:.2f} s of GPU time"}
    return [form.format(summary[name]) for name, form in forms.items() if summary.get(name) is not None]


def _cell(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"

"""The label by which a daemon finds the objects of its node."""

from __future__ import annotations

from hashlib import sha256

from gpuyard.kube import names

LONGEST = 63
"""Of a label's value; names of nodes may be longer."""


def node_label(node: str) -> str:
    """As a selector of lists has it, `key=value`."""
    short = node if len(node) <= LONGEST else sha256(node.encode()).hexdigest()[:LONGEST]
    return f"{names.NODE}={short}"

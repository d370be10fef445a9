"""Imports point downwards only, in the order that docs/architecture.md states."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"


def stated_order() -> list[str]:
    """The layers from the first block of docs/architecture.md, highest first."""
    block = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    return re.findall(r"^(\w+) ", block, flags=re.MULTILINE)


def imported(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """Each gpuyard module that a file imports, anywhere in it, with the line."""
    package = path.relative_to(source).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "gpuyard")
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            if base[:1] == ["gpuyard"]:
                # `from gpuyard import cli` names the layer in the alias, not in the module.
                tails = [alias.name for alias in node.names] if len(base) == 1 else [""]
                yield from ((node.lineno, ".".join([*base, tail]).rstrip(".")) for tail in tails)


def violations(source: Path, order: list[str]) -> list[str]:
    """Every import that points upwards, and every folder without a place in the order."""
    found = []
    for path in sorted((source / "gpuyard").rglob("*.py")):
        parts = path.relative_to(source / "gpuyard").parts
        if len(parts) == 1 or parts[0] == order[0]:
            continue  # the package's front door shows every layer, and the top layer may use it
        if parts[0] not in order:
            found.append(f"{parts[0]}: no such layer in docs/architecture.md")
            continue
        below = {*order[order.index(parts[0]) :], "_version"}
        for line, module in imported(path, source):
            layer = [*module.split("."), ""][1]
            if layer not in below:
                found.append(f"{path.relative_to(source)}:{line}: {parts[0]} must not import {module}")
    return found


def test_imports_point_downwards() -> None:
    assert violations(SOURCE, stated_order()) == []


def test_the_order_is_read_from_the_architecture_page() -> None:
    order = stated_order()
    assert order[0] == "cli"
    assert order[-1] == "core"


@pytest.mark.parametrize(
    "statement",
    [
        "from gpuyard.policies import order",
        "import gpuyard.policies.order",
        "from gpuyard import policies",
        "from ..policies import order",
        "from .. import policies",
        "from gpuyard import simulate",
        "import gpuyard",
        "def late():\n    from gpuyard.policies import order",
    ],
)
def test_an_upward_import_is_caught(tmp_path: Path, statement: str) -> None:
    (tmp_path / "gpuyard" / "core").mkdir(parents=True)
    (tmp_path / "gpuyard" / "core" / "bad.py").write_text(statement)
    (found,) = violations(tmp_path, ["cli", "policies", "core"])
    assert found.startswith("gpuyard/core/bad.py:")


@pytest.mark.parametrize(
    "statement",
    [
        "from gpuyard.core import units",
        "from . import other",
        "from gpuyard._version import __version__",
        "import numpy",
    ],
)
def test_downward_imports_and_one_s_own_layer_are_allowed(tmp_path: Path, statement: str) -> None:
    (tmp_path / "gpuyard" / "policies").mkdir(parents=True)
    (tmp_path / "gpuyard" / "policies" / "good.py").write_text(statement)
    assert violations(tmp_path, ["cli", "policies", "core"]) == []


def test_a_folder_without_a_place_is_caught(tmp_path: Path) -> None:
    (tmp_path / "gpuyard" / "misc").mkdir(parents=True)
    (tmp_path / "gpuyard" / "misc" / "x.py").write_text("")
    assert violations(tmp_path, ["cli", "core"]) == ["misc: no such layer in docs/architecture.md"]

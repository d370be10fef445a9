"""Imports follow the rules of docs/architecture.md: downwards only, no strangers, nothing private, no circles."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.import_rules import Rules, circles, violations

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
STATED = Rules.read((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))


def test_imports_follow_the_rules() -> None:
    assert violations(SOURCE, STATED) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(SOURCE) == []


def _named(module: ast.Module) -> Iterator[str]:
    """Classes and type aliases that others may use: names as classes have, but for type variables."""
    for line in module.body:
        if isinstance(line, ast.ClassDef):
            yield line.name
        elif isinstance(line, ast.Assign) and not ast.unparse(line.value).startswith(("TypeVar(", "ParamSpec(")):
            yield from (each.id for each in line.targets if isinstance(each, ast.Name))


def test_no_two_classes_or_aliases_that_others_may_use_have_one_name() -> None:
    files = [file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")]
    found = Counter(name for file in files for name in _named(ast.parse(file)) if re.match(r"[A-Z]\w*[a-z]", name))
    assert found["Floats"] == 1
    assert [name for name, times in found.items() if times > 1] == []


def test_the_rules_are_read_from_the_architecture_page() -> None:
    assert STATED.layers[0] == ["cli"]
    assert STATED.layers[-1] == ["core"]
    assert {"simulation", "emulation"} <= {name for level in STATED.layers if len(level) > 1 for name in level}
    with_parts = {"cli", "client", "emulation", "kube", "policies", "runtime", "serving"}
    assert {layer for layer, _ in STATED.parts} == with_parts


RULES = Rules.read(
    """
```text
cli                     what a user calls
simulation | emulation  two worlds
policies                decisions
core                    values
```
```text
policies   published > order | allocate
emulation  torch > device
```
"""
)


def package(folder: Path, **files: str) -> Path:
    """Write modules, named with two underscores for each dot, and the packages they lie in."""
    for name, text in {"core__units": "", "policies__order__fifo": "", **files}.items():
        path = folder.joinpath("gpuyard", *name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for inside in [folder / "gpuyard", *(path for path in (folder / "gpuyard").rglob("*") if path.is_dir())]:
        (inside / "__init__.py").touch()
    return folder


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
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from gpuyard.policies import order",
    ],
)
def test_an_upward_import_is_caught(tmp_path: Path, statement: str) -> None:
    (found,) = violations(package(tmp_path, core__bad=statement), RULES)
    assert found.startswith("gpuyard/core/bad.py:")
    assert ": core must not import gpuyard" in found


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("policies__good", "from gpuyard.core import units"),
        ("policies__good", "from . import order"),
        ("policies__good", "from gpuyard._version import __version__"),
        ("policies__good", "import numpy"),
        ("simulation__good", "from gpuyard.policies.order import fifo"),
        ("cli__good", "from gpuyard import policies, simulate"),
    ],
)
def test_downward_imports_and_one_s_own_layer_are_allowed(tmp_path: Path, name: str, statement: str) -> None:
    assert violations(package(tmp_path, **{name: statement}), RULES) == []


@pytest.mark.parametrize(
    "statement",
    [
        "from gpuyard.emulation import device",
        "import gpuyard.emulation.device",
        "from gpuyard import emulation",
        "def late():\n    from gpuyard.emulation.device import Gpu",
    ],
)
def test_layers_on_one_line_are_strangers(tmp_path: Path, statement: str) -> None:
    (found,) = violations(package(tmp_path, emulation__device="", simulation__bad=statement), RULES)
    assert ": simulation must not import gpuyard.emulation" in found


def test_a_folder_without_a_place_is_caught(tmp_path: Path) -> None:
    assert violations(package(tmp_path, misc__x=""), RULES) == ["misc: no such layer in docs/architecture.md"]


@pytest.mark.parametrize(
    ("name", "statement", "message"),
    [
        ("policies__allocate__bad", "from gpuyard.policies.order.fifo import x", "policies/allocate must not import"),
        ("policies__allocate__bad", "from ..order import fifo", "policies/allocate must not import policies/order"),
        ("policies__order__bad", "from gpuyard.policies import published", "policies/order must not import"),
        ("emulation__device", "from gpuyard.emulation.torch import x", "emulation/device must not import"),
        ("emulation__device", "def f():\n    from gpuyard.emulation import torch", "emulation/device must not import"),
    ],
)
def test_parts_of_a_layer_are_strangers_unless_it_is_stated(
    tmp_path: Path, name: str, statement: str, message: str
) -> None:
    source = package(tmp_path, **{"policies__published__x": "", "emulation__torch__x": "", name: statement})
    (found,) = violations(source, RULES)
    assert message in found


def test_stated_imports_between_parts_are_allowed(tmp_path: Path) -> None:
    source = package(
        tmp_path,
        policies__published__x="from gpuyard.policies.order import fifo",
        policies__order__other="from gpuyard.policies.order import fifo\nfrom gpuyard.policies import unnamed",
        policies__unnamed="",
        emulation__torch__x="from gpuyard.emulation import device",
        emulation__device="",
    )
    assert violations(source, RULES) == []


@pytest.mark.parametrize(
    "statement",
    [
        "from gpuyard.cli.simulate import _options",
        "def late():\n    from gpuyard.cli.simulate import _options",
        "from gpuyard.cli import simulate\nsimulate._options()",
    ],
)
def test_private_names_of_another_module_are_caught(tmp_path: Path, statement: str) -> None:
    (found,) = violations(package(tmp_path, cli__simulate="def _options(): ...", cli__bad=statement), RULES)
    assert "_options is private to gpuyard.cli.simulate" in found


def test_a_private_attribute_of_something_else_is_nobody_s_business_here(tmp_path: Path) -> None:
    text = "from gpuyard.core import units\ndef f(units):\n    return units._x, __name__"
    assert violations(package(tmp_path, policies__good=text), RULES) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from gpuyard.core import b", "from gpuyard.core import a"),
        ("import gpuyard.core.b", "from gpuyard.core.a import x"),
        ("def late():\n    from gpuyard.core.b import x", "from . import a"),
    ],
)
def test_a_circle_is_caught(tmp_path: Path, first: str, second: str) -> None:
    assert circles(package(tmp_path, core__a=first, core__b=second)) == [("gpuyard.core.a", "gpuyard.core.b")]


def test_a_circle_of_three_is_caught_and_what_only_leads_to_it_is_not_named(tmp_path: Path) -> None:
    source = package(
        tmp_path,
        core__a="from gpuyard.core import b",
        core__b="from gpuyard.core import c",
        core__c="from gpuyard.core import a",
        core__outside="from gpuyard.core import a",
    )
    assert circles(source) == [("gpuyard.core.a", "gpuyard.core.b", "gpuyard.core.c")]


def test_annotations_close_no_circle(tmp_path: Path) -> None:
    only_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from gpuyard.core.b import x"
    assert circles(package(tmp_path, core__a=only_types, core__b="from gpuyard.core import a")) == []

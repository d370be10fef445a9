"""Checks imports against the rules that docs/architecture.md states. It reads source and imports nothing.

Layers: the page's first block names them from top to bottom. A layer may import what stands below it. Those on one
line, `simulation | emulation`, are strangers: neither imports the other.

Parts: the second block has lines such as `policies  published > order | allocate`, about files and folders inside a
layer. A part may import the parts behind a later `>`; parts between two of these are strangers. What a line does not
name, it does not concern.

Everywhere: no module imports or reads a private name of another, and no modules import each other in a circle, whether
they do so at once or inside a function. Imports for annotations only, under `if TYPE_CHECKING`, close no circle.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

PACKAGE = "gpuyard"
SHARED = ("_version",)
"""What every layer may import, wherever it stands."""

Order = list[list[str]]
"""From top to bottom; those on one level are strangers."""


@dataclass(frozen=True)
class Rules:
    """What the architecture page states."""

    layers: Order
    parts: Sequence[tuple[str, Order]] = ()
    """Orders inside a layer."""

    @classmethod
    def read(cls, page: str) -> Rules:
        """Read the first two blocks of the page."""
        layers, parts = page.split("```")[1:4:2]
        names = re.findall(r"^(\w+(?: \| \w+)*)  ", layers, flags=re.MULTILINE)
        lines = re.findall(r"^(\w+) {2,}(.+)$", parts, flags=re.MULTILINE)
        return cls([_strangers(each) for each in names], [(layer, _order(text)) for layer, text in lines])


def _strangers(text: str) -> list[str]:
    return [name.strip() for name in text.split("|")]


def _order(text: str) -> Order:
    return [_strangers(level) for level in text.split(">")]


class Import(NamedTuple):
    """One import of a module of the package."""

    line: int
    module: str
    names: tuple[str, ...]
    only_types: bool


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path
    is_package: bool

    @cached_property
    def tree(self) -> ast.Module:
        """Its source."""
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @cached_property
    def imports(self) -> list[Import]:
        """Every import of the package's modules, anywhere in it."""
        return list(self._imports())

    def _imports(self) -> Iterator[Import]:
        for node in ast.walk(self.tree):
            only_types = isinstance(node, ast.stmt) and node.lineno in self._type_lines
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(node.lineno, alias.name, (), only_types)
            elif isinstance(node, ast.ImportFrom):
                names = tuple(alias.name for alias in node.names)
                yield Import(node.lineno, self._base(node), names, only_types)

    def _base(self, node: ast.ImportFrom) -> str:
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        above = package[: len(package) - node.level + 1] if node.level else []
        return ".".join([*above, *([node.module] if node.module else [])])

    @cached_property
    def _type_lines(self) -> set[int]:
        """Lines that only type checkers read."""
        guarded = [
            node for node in ast.walk(self.tree) if isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING"
        ]
        return {each.lineno for node in guarded for inner in node.body for each in _statements(inner)}


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    return (each for each in ast.walk(node) if isinstance(each, ast.stmt))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class Source:
    """All modules of the package, and what they import of each other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = (self._module(path) for path in sorted((folder / PACKAGE).rglob("*.py")))
        self.modules = {module.name: module for module in found}

    def _module(self, path: Path) -> Module:
        parts = list(path.relative_to(self.folder).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        return Module(".".join(parts[:-1] if is_package else parts), path, is_package)

    def imported(self, module: Module) -> Iterator[tuple[Import, str]]:
        """Yield each import with what it names: modules where it names modules, else the module of the names."""
        for each in module.imports:
            if each.module.split(".")[0] != PACKAGE:
                continue
            whole = [f"{each.module}.{name}" for name in each.names]
            inner = [name for name in whole if name in self.modules or each.module == PACKAGE]
            yield from ((each, name) for name in inner)
            if len(inner) < len(whole) or not whole:
                yield each, each.module

    def where(self, module: Module, line: int) -> str:
        """Say where something stands."""
        return f"{module.path.relative_to(self.folder)}:{line}"


def violations(folder: Path, rules: Rules) -> list[str]:
    """Return everything that breaks a rule, but for circles."""
    source = Source(folder)
    found = [f"{layer}: no such layer in docs/architecture.md" for layer in _unknown(source, rules)]
    for module in source.modules.values():
        found += _layer_violations(source, module, rules.layers)
        found += _part_violations(source, module, rules.parts)
        found += _private_uses(source, module)
    return found


def _unknown(source: Source, rules: Rules) -> list[str]:
    known = {name for level in rules.layers for name in level}
    folders = {name.split(".")[1] for name, module in source.modules.items() if _is_inside(module)}
    return sorted(folders - known)


def _is_inside(module: Module) -> bool:
    """Whether a module lies in a layer; the package's front door, which shows every layer, does not."""
    return len(module.name.split(".")) > 2 or (module.is_package and module.name != PACKAGE)


def _layer_violations(source: Source, module: Module, layers: Order) -> Iterator[str]:
    own = [*module.name.split("."), ""][1]
    level = _level(own, layers)
    if not _is_inside(module) or level is None or level == 0:
        return  # the top layer may use everything, the front door too
    allowed = {own, *SHARED, *(name for below in layers[level + 1 :] for name in below)}
    for each, target in source.imported(module):
        if [*target.split("."), ""][1] not in allowed:
            yield f"{source.where(module, each.line)}: {own} must not import {target}"


def _level(name: str, order: Order) -> int | None:
    return next((level for level, names in enumerate(order) if name in names), None)


def _part_violations(source: Source, module: Module, parts: Sequence[tuple[str, Order]]) -> Iterator[str]:
    for layer, order in parts:
        own = _part(module.name, layer)
        level = _level(own, order)
        for each, target in source.imported(module) if level is not None else ():
            other = _part(target, layer)
            theirs = _level(other, order)
            if theirs is not None and level is not None and other != own and theirs <= level:
                yield f"{source.where(module, each.line)}: {layer}/{own} must not import {layer}/{other}"


def _part(module: str, layer: str) -> str:
    """The file or folder of a layer that a module belongs to; nothing if it is another layer's."""
    _, *inside = module.split(".")
    return inside[1] if len(inside) > 1 and inside[0] == layer else ""


def _private_uses(source: Source, module: Module) -> Iterator[str]:
    modules: dict[str, str] = {}
    for each, target in source.imported(module):
        for name in each.names:
            if _is_private(name) and name not in SHARED:
                yield f"{source.where(module, each.line)}: {name} is private to {each.module}"
        if target in source.modules and not target.endswith(SHARED):
            modules[target.rpartition(".")[2]] = target
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and _is_private(node.attr):
            owner = modules.get(node.value.id)
            if owner is not None and _names_module(module, node.value.id):
                yield f"{source.where(module, node.lineno)}: {node.attr} is private to {owner}"


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _names_module(module: Module, name: str) -> bool:
    """Whether a name stands for an imported module and for nothing else that the file gives this name."""
    assigned = {
        node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    arguments = {node.arg for node in ast.walk(module.tree) if isinstance(node, ast.arg)}
    imported = {alias for each in module.imports for alias in each.names}
    return name in imported and name not in assigned | arguments


def circles(folder: Path) -> list[tuple[str, ...]]:
    """Return every group of modules that import each other in a circle, by name."""
    source = Source(folder)
    edges = {
        name: {target for each, target in source.imported(module) if target in source.modules and not each.only_types}
        for name, module in source.modules.items()
    }
    reach = {name: _reachable(name, edges) for name in edges}
    groups = {tuple(sorted(other for other in reach[name] if name in reach[other])) for name in edges}
    return sorted(group for group in groups if group)


def _reachable(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    """All modules that one leads to; itself only if a circle leads back."""
    found: set[str] = set()
    ahead = [target for target in edges[start] if target != start]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += edges[name]
    return found

"""Policies by name: shipped, from an installed package, or from a file. One registry for each kind of policy.

A policy is written `name[:option=value,…]`; one of your own `path/to/file.py:Name[:option=value,…]`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from gpuyard.core.errors import GpuyardError, InputError, nearest
from gpuyard.policies.naming import OtherPolicy, PolicyName, option_values, options_of, parse
from gpuyard.policies.own_code import own_failure
from gpuyard.policies.timeshare import TIME_SHARINGS
from gpuyard.policies.timeshare.launch import LAUNCH_POLICIES

_SETTINGS = {**dict.fromkeys(("order", "allocate", "partition", "launch"), "policy"), "timeshare": "sharing"}
"""The setting in which a user names a policy of each kind, where it is not called as the kind is."""


@dataclass(frozen=True)
class Kind:
    """One kind of policy: what is shipped, where packages offer their own, and what any of them must be."""

    name: str
    article: str
    shipped: Mapping[str, str]
    """By name, `module:attribute` below gpuyard.policies; imported when first used, since some need a solver."""
    group: str
    """The entry points under which installed packages offer theirs."""
    method: str | None = None
    """What an object of this kind can do; None: it is a function."""
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """What is shipped."""
        return tuple(self.shipped)

    @property
    def chosen_by(self) -> str:
        """The setting in which a user names one."""
        return _SETTINGS.get(self.name, self.name)

    @property
    def said_as(self) -> str:
        """What errors about its options call it: its setting, or which part of a `policy` it is."""
        return self.name if self.chosen_by == "policy" else self.chosen_by

    def shipped_one(self, name: str) -> Any:
        """Return what is shipped under this name: a function or a class."""
        module, _, attribute = self.shipped[name].partition(":")
        return getattr(import_module(f"gpuyard.policies.{module}"), attribute)

    def find(self, written: str, **defaults: Any) -> Any:
        """Return the policy of this name, with the options written behind it, then with these defaults.

        A default that the policy does not have is passed over.
        """
        name = parse(written, self.said_as)
        found = self._look_up(name)
        if not self.is_one(found):
            raise InputError(f"is not {self.article}", field=self.chosen_by, value=name.name)
        if not isinstance(found, type):
            return _unchanged(found, name, self.said_as)
        options = getattr(found, "__dataclass_fields__", {})
        values = {key: value for key, value in defaults.items() if key in options and value is not None}
        values |= self._options(name, found)
        with _loading("cannot be used:", value=name.name, where=self.chosen_by):
            return found(**values)

    def _options(self, name: PolicyName, found: type) -> dict[str, Any]:
        """Read the options that are written, with what they name of other kinds in the place of the names."""
        values = option_values(name, found, self.said_as)
        for attribute, kind in options_of(found).values():
            if attribute in values and isinstance(kind, OtherPolicy):
                values[attribute] = KINDS[kind.kind].chosen(values[attribute])
        return values

    def chosen(self, written: str) -> Any:
        """Return a shipped policy as its name, by which compiled code knows it, and any other as an object."""
        found = self.find(written)
        return written if written in self.names else found

    def is_one(self, found: Any) -> bool:
        """Whether something from a user's file is of this kind."""
        return callable(found) if self.method is None else hasattr(found, self.method)

    def _look_up(self, name: PolicyName) -> Any:
        if ".py:" in name.name:
            return from_file(name.name, self.chosen_by)
        known = self.aliases.get(name.name.lower(), name.name.lower())
        if known in self.shipped:
            return self.shipped_one(known)
        installed = {entry.name: entry for entry in importlib.metadata.entry_points(group=self.group)}
        if name.name in installed:
            with _loading("the installed policy cannot be loaded:", value=name.name, where=self.chosen_by):
                return installed[name.name].load()
        hint = nearest(name.name, [*self.shipped, *installed])
        raise InputError(f"is not {self.article}", field=self.chosen_by, value=name.name, hint=hint)


@contextmanager
def _loading(rule: str, *, file: Path | None = None, value: str | None = None, where: str = "policy") -> Iterator[None]:
    """Let whatever stops a user's code while it is loaded name its file and row."""
    try:
        yield
    except (GpuyardError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise own_failure(error, rule, file=file, field=where, value=value) from error


def _unchanged(found: Any, name: PolicyName, kind: str) -> Any:
    if name.options:
        option_values(name, found, kind)  # refuses them: a function, or an object made elsewhere, has none
    return found


ORDERS = Kind(
    "order", "an order",
    {
        "fifo": "order.fifo:fifo", "srtf": "order.srtf:srtf", "srsf": "order.srtf:srsf", "las": "order.las:las",
        "ftf": "order.ftf:ftf", "drf": "order.drf:drf", "tetris": "order.tetris:tetris",
    },
    "gpuyard.orders",
)  # fmt: skip

ALLOCATIONS = Kind(
    "allocate", "an allocation",
    {
        "proportional": "allocate.proportional:Proportional", "greedy": "allocate.greedy:Greedy",
        "tune": "allocate.tune:Tune", "opt": "allocate.opt:Opt",
    },
    "gpuyard.allocations", "plan", {"fair": "proportional"},
)  # fmt: skip

PLACEMENTS = Kind(
    "placement", "a placement",
    {
        "first-fit": "placement.first_fit:FirstFit", "consolidating": "placement.consolidating:Consolidating",
        "best-fit": "placement.best_fit:BestFit",
    },
    "gpuyard.placements", "score",
)  # fmt: skip

TIMESHARES = Kind(
    "timeshare", "a sharing policy",
    {name: f"timeshare:{policy.__name__}" for name, policy in TIME_SHARINGS.items()},
    "gpuyard.timeshares", "rates",
)  # fmt: skip

LAUNCHINGS = Kind(
    "launch", "a policy of launching",
    {name: f"timeshare.launch:{policy.__name__}" for name, policy in LAUNCH_POLICIES.items()},
    "gpuyard.launchings", "terms",
)  # fmt: skip

PARTITIONS = Kind(
    "partition", "a partition policy",
    {
        "elastic": "partition.elastic:Elastic", "squishy": "partition.elastic:Squishy",
        "greedy": "partition.elastic:GreedySlices", "exhaustive": "partition.elastic:Exhaustive",
        "self-tuning": "partition.self_tuning:SelfTuning",
    },
    "gpuyard.partitions", "plan",
)  # fmt: skip

MULTIPLEXERS = Kind(
    "multiplex", "a multiplex policy",
    {
        "interference": "multiplex.least_harm:LeastHarm", "placement-only": "multiplex.least_harm:PlacementOnly",
        "tuning-only": "multiplex.baselines:TuningOnly", "exclusive": "multiplex.baselines:ExclusiveGpus",
        "first-fit": "multiplex.baselines:SharedFirstFit", "best-fit": "multiplex.baselines:SharedBestFit",
        "random": "multiplex.baselines:RandomFit", "utilisation": "multiplex.baselines:UtilisationThreshold",
        "pairwise": "multiplex.pairwise:PairwiseMatching", "iadeep": "published.multiplex:Iadeep",
        "antman": "published.multiplex:Antman", "kernelest": "published.multiplex:Kernelest",
    },
    "gpuyard.multiplexers", "plan",
)  # fmt: skip

KINDS = {
    kind.name: kind for kind in (ORDERS, ALLOCATIONS, PLACEMENTS, PARTITIONS, MULTIPLEXERS, TIMESHARES, LAUNCHINGS)
}
"""Every kind of policy, by the name of its folder."""


def from_file(text: str, where: str = "policy") -> Any:
    """Load something from a Python file, given as `path/to/file.py:Name`; `where` is the setting that names it."""
    file, _, name = text.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise InputError("no such file", file=path, field=where, value=text, hint="Give path/to/file.py:Name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError("is not a Python file", file=path, field=where, value=text)
    module = importlib.util.module_from_spec(spec)
    with _loading("the policy file cannot be loaded:", file=path, where=where):
        spec.loader.exec_module(module)
    if not hasattr(module, name):
        public = [each for each in vars(module) if not each.startswith("_")]
        raise InputError("is not defined there", file=path, field=where, value=name, hint=nearest(name, public))
    return _usable(getattr(module, name), path, name, where)


def _usable(found: Any, path: Path, name: str, where: str) -> Any:
    if not any(kind.is_one(found) for kind in KINDS.values()):
        rule = "is neither an order, a function of a snapshot, nor an allocation, which has plan(snapshot, order)"
        raise InputError(rule, file=path, field=where, value=name)
    if isinstance(found, type) and not hasattr(found, "__dataclass_fields__"):
        with _loading("cannot be used:", file=path, value=name, where=where):
            return found()
    return found

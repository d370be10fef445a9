"""Compile what simulations need before they start: once, in one process, and not as part of what a run costs.

As a program (`python -m gpuyard.simulation.compiling`) it compiles everything that any shipped policy needs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

from gpuyard.core.cluster import Cluster
from gpuyard.core.errors import GpuyardError
from gpuyard.core.kernel import CACHE, NOTICE
from gpuyard.core.workload import Job, Workload
from gpuyard.policies.allocate.perjob import PerJob
from gpuyard.policies.controller import control
from gpuyard.policies.decide import decide
from gpuyard.policies.own_code import is_own
from gpuyard.policies.policy import Policy
from gpuyard.policies.registry import ALLOCATIONS, ORDERS
from gpuyard.profiles import load_zoo
from gpuyard.simulation.device.rehearsal import rehearse_sharing
from gpuyard.simulation.opening import find_policy, open_cluster
from gpuyard.simulation.options import Failure, Options
from gpuyard.simulation.serving.rehearsal import rehearse


def compile_ahead(choices: Iterable[Options], *, quiet: bool = False) -> None:
    """Compile here and now what these simulations need and what was not compiled yet, so that no worker has to.

    A policy that cannot be found is passed over: its run will say so.
    """
    NOTICE.quiet = quiet
    for name, faithful in dict.fromkeys((options.policy, options.faithful) for options in choices):
        with suppress(GpuyardError):
            policy = shipped_parts(find_policy(name, Options(faithful=faithful)))
            if CACHE is not None and not CACHE.has(_kernels_of(policy)):
                load_kernels(policy, faithful=faithful)


def load_kernels(policy: Policy, *, faithful: bool = False) -> None:
    """Compile or load what runs under this policy need; nothing of a user's own is called."""
    _rehearse(shipped_parts(policy), faithful)


def shipped_parts(policy: Policy) -> Policy:
    """Put parts of gpuyard that need the same kernels in the place of a user's own."""
    allocate: Any = policy.allocate
    if is_own(allocate):
        allocate = ALLOCATIONS.find("greedy" if isinstance(allocate, PerJob) else "proportional")
    if not isinstance(getattr(allocate, "placement", ""), str):
        allocate = replace(allocate, placement="best-fit")
    order = ORDERS.find("las") if is_own(policy.order) else policy.order
    return replace(policy, order=order, allocate=allocate)


@cache
def _rehearse(policy: Policy, faithful: bool) -> None:
    """Run two jobs, and a failure, through everything that a run may use; the first process to do so compiles it."""
    kernels = _kernels_of(policy)
    known = CACHE is None or CACHE.has(kernels)
    with interrupts_found_again(), nullcontext() if CACHE is None or known else CACHE.alone():
        jobs = [Job(number, 0.0, 1, model, duration_s=1500.0) for number, model in enumerate(("res18", "gnmt"))]
        options = Options(faithful=faithful, failures=(Failure(0, 400.0, 300.0),))
        world = open_cluster(Cluster.uniform(2), Workload.from_jobs(jobs), policy, options, load_zoo())
        control(world, partial(decide, policy))
    if CACHE is not None and not known:
        CACHE.note(kernels)


@contextmanager
def interrupts_found_again() -> Iterator[None]:
    """Raise an interrupt that met the compiler while it called Python back.

    There Python can only drop it, and compiling fails later for want of an answer.
    """
    dropped = []
    usual = sys.unraisablehook

    def hear(report: sys.UnraisableHookArgs) -> None:
        if issubclass(report.exc_type, KeyboardInterrupt):
            dropped.append(report.exc_type)
        else:
            usual(report)

    sys.unraisablehook = hear
    try:
        yield
    except Exception:
        if not dropped:
            raise
    finally:
        sys.unraisablehook = usual
    if dropped:
        raise KeyboardInterrupt


def _kernels_of(policy: Policy) -> str:
    """Name the kernels that a policy of shipped parts needs: equal names, equal kernels."""
    order: Any = policy.order
    return f"{order.__module__}.{order.__name__}+{type(policy.allocate).__name__}".removeprefix("gpuyard.policies.")


def shipped_policies() -> Iterator[tuple[Policy, bool]]:
    """Every combination of shipped parts, corrected and as published, and whether it is as published."""
    for faithful in (False, True):
        for order in ORDERS.names:
            for allocation in ALLOCATIONS.names:
                yield find_policy(f"{order}+{allocation}", Options(faithful=faithful)), faithful


if __name__ == "__main__":
    for each, as_published in shipped_policies():
        load_kernels(each, faithful=as_published)
    rehearse()
    rehearse_sharing()

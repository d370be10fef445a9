"""The solver behind `opt`: an integer programme chooses every job's amounts, a linear one spreads jobs over nodes.

Jobs that are alike (same size, same options) are one variable with a count. That is exact, and it spares the solver
the symmetry that makes such programmes slow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from gpuyard.core.errors import InputError
from gpuyard.core.kernel import Floats, Ints
from gpuyard.policies.allocate.solver import silent_solver

INTEGRAL = 1e-6
"""How far from a whole number a solver's answer may be and still count as whole."""

_ATTEMPTS = 5
"""Whole to 1e-6, once rounded, may exceed a total by a hair; the solver then tries again with that much less."""


def choose(
    options: Sequence[Floats], gpus: Ints, totals: Floats, *, weighted: bool = True, time_limit_s: float = 10.0
) -> Ints | None:
    """Pick a row of each job's ladder so that the sum of speeds is largest and the cluster's totals suffice.

    A row is (cpus, memory, storage, speed) per GPU. Weighted, a job's speed counts once for each of its GPUs.
    None when even the guarantees exceed the totals, or when time ran out before any answer was found.
    """
    if not len(options):
        return np.zeros(0, dtype=np.int64)
    gpus = np.asarray(gpus, dtype=np.int64)
    alike = _alike((int(size), table.tobytes()) for size, table in zip(gpus, options, strict=True))
    firsts = [group[0] for group in alike]
    tables = [np.asarray(options[j], dtype=np.float64) for j in firsts]
    sizes = gpus[firsts].astype(np.float64)
    members = [len(group) for group in alike]
    counts = _counts(tables, sizes, members, totals, weighted=weighted, time_limit_s=time_limit_s)
    if counts is None:
        return None
    chosen = np.zeros(len(options), dtype=np.int64)
    for group, count in zip(alike, counts, strict=True):
        # Of jobs that are alike, the first in line get the better rows.
        chosen[group] = np.repeat(np.arange(len(count)), count)[::-1]
    return chosen


def published_choice(
    matrices: Sequence[Floats],
    grids: tuple[Floats, Floats],
    gpus: Ints,
    totals: Floats,
    share: tuple[float, float],
    *,
    time_limit_s: float = 60.0,
) -> Floats | None:
    """Return each job's speed as the published first stage chooses it: any grid point not slower than the share.

    Totals are (cpus, memory); jobs count alike whatever their size, storage is ignored. None as for `choose`.
    """
    cpus, memory = (np.asarray(grid, dtype=np.float64) for grid in grids)
    row, column = (_on_grid(grid, value) for grid, value in zip((cpus, memory), share, strict=True))
    points = np.stack([*(axis.ravel() for axis in np.meshgrid(cpus, memory, indexing="ij"))], axis=1)
    tables = []
    for matrix in matrices:
        table = np.column_stack([points, matrix.ravel()])
        tables.append(table[table[:, 2] >= matrix[row, column]])
    chosen = choose(tables, gpus, totals, weighted=False, time_limit_s=time_limit_s)
    if chosen is None:
        return None
    return np.array([table[k, 2] for table, k in zip(tables, chosen, strict=True)])


def split(
    gpus: Ints, amounts: Floats, node_gpus: Ints, capacity: Floats, *, time_limit_s: float = 10.0
) -> Floats | None:
    """Return X[node, job], the fraction of each job on each node, within every node's GPUs and amounts.

    Of all such answers one with few fractional jobs (a vertex) on low node numbers. None when there is none.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, kron

    if not len(gpus):
        return np.zeros((len(node_gpus), 0))
    gpus = np.asarray(gpus, dtype=np.int64)
    alike = _alike((int(size), row.tobytes()) for size, row in zip(gpus, amounts, strict=True))
    firsts = [group[0] for group in alike]
    need = np.column_stack([np.ones(len(firsts)), amounts[firsts]]).T * gpus[firsts]  # resource x sort of job
    limits = np.column_stack([node_gpus, capacity]).astype(np.float64)
    nodes = len(limits)
    with silent_solver():
        answer = linprog(
            np.kron(np.arange(nodes), gpus[firsts]).astype(np.float64),
            A_ub=kron(eye_array(nodes), csr_array(need), format="csr"),
            b_ub=limits.ravel(),
            A_eq=kron(np.ones((1, nodes)), eye_array(len(firsts)), format="csr"),
            b_eq=np.array([len(group) for group in alike], dtype=np.float64),
            method="highs-ds",  # simplex: its answer is a vertex, so few jobs are fractional
            options={"time_limit": time_limit_s},
        )
    if answer.x is None or answer.status != 0:
        return None
    shares = np.zeros((nodes, len(gpus)))
    for group, column in zip(alike, answer.x.reshape(nodes, -1).T, strict=True):
        shares[:, group] = _single(column, len(group))
    return shares


def _counts(
    tables: Sequence[Floats],
    sizes: Floats,
    members: Sequence[int],
    totals: Floats,
    *,
    weighted: bool,
    time_limit_s: float,
) -> list[Ints] | None:
    """Return, for each sort of job, how many of its members take each row."""
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    lengths = [len(table) for table in tables]
    sort = np.repeat(np.arange(len(tables)), lengths)
    rows = np.concatenate(tables)
    need = rows[:, :-1].T * sizes[sort]
    one_each = csr_array((np.ones(len(sort)), (sort, np.arange(len(sort)))))
    limits = np.array(totals, dtype=np.float64)
    for _ in range(_ATTEMPTS):
        with silent_solver():
            answer = milp(
                -rows[:, -1] * (sizes[sort] if weighted else 1.0),
                integrality=np.ones(len(sort)),
                constraints=[LinearConstraint(need, ub=limits), LinearConstraint(one_each, lb=members, ub=members)],
                options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
            )
        if answer.x is None:
            return None
        counts = np.rint(answer.x).astype(np.int64)
        beyond = np.maximum(need @ counts - totals, 0.0)
        if np.all(beyond <= 1e-9 * totals) and np.all(one_each @ counts == members):
            return np.split(counts, np.cumsum(lengths)[:-1])
        limits -= beyond
    return None


def _single(column: Floats, members: int) -> Floats:
    """Share out a sort's jobs over nodes: as many as possible whole, the others over the remainders in turn."""
    whole = np.floor(column + INTEGRAL)
    rest = np.maximum(column - whole, 0.0)
    homes = np.repeat(np.arange(len(column)), whole.astype(np.int64))
    shares = np.zeros((len(column), members))
    shares[homes, np.arange(len(homes))] = 1.0
    start = len(homes)
    for node in np.flatnonzero(rest > INTEGRAL):
        left = rest[node]
        for job in range(start, members):
            part = min(left, 1.0 - shares[:, job].sum())
            shares[node, job] += part
            left -= part
    return shares


def _alike(keys: Iterable[Hashable]) -> list[list[int]]:
    """Group positions by key, in order of first appearance."""
    groups: dict[Hashable, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    return list(groups.values())


def _on_grid(grid: Floats, value: float) -> int:
    """Return the index of a value that must be a grid point, as the original requires."""
    found = np.flatnonzero(grid == value)
    if not len(found):
        raise InputError(
            f"per GPU is the nodes' share, but as published opt needs a measured point: {[float(p) for p in grid]}",
            field="cluster",
            value=value,
        )
    return int(found[0])

"""From grants by name to a plan: all that an allocation in plain Python needs to answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from gpuyard.core.arrays import Ints
from gpuyard.core.books import Books
from gpuyard.core.cluster import RESOURCES
from gpuyard.core.errors import InputError, nearest
from gpuyard.core.grants import Grant, Part
from gpuyard.policies.plan import PLACED, REASONS, Plan
from gpuyard.policies.snapshot import Snapshot, moment_of

UNSAID = "gpus"
"""Why a job waits of which a policy says nothing."""

NOTHING_SAID: Mapping[Hashable, str] = MappingProxyType({})


def plan_of_grants(
    snapshot: Snapshot, order: Ints, grants: Iterable[Grant], waits: Mapping[Hashable, str] = NOTHING_SAID
) -> Plan:
    """The plan in which these jobs of the order hold just what their grants say; all others stop, or go on waiting.

    What a job holds now is a grant too: with it, it stays. `waits` says why others wait, by a reason's name.
    """
    books = moment_of(snapshot).tables.books
    number_of = {snapshot.job_id_of(int(number)): int(number) for number in order}
    given = {_known(grant.holder, number_of, "job"): grant for grant in grants}
    gpus, amounts = [], np.zeros((len(given), len(RESOURCES)))
    nodes = {name: number for number, name in enumerate(snapshot.cluster.node_names)}
    for row, (number, grant) in enumerate(given.items()):
        gpus.append([_gpu(part, grant, int(books.part[number]), books, nodes) for part in grant.parts])
        amounts[row] = _amounts_of_each(grant)
    reasons = [PLACED if number in given else _code(waits.get(job, UNSAID)) for job, number in number_of.items()]
    stopped = [number for number in number_of.values() if number not in given and books.slot[number] >= 0]
    return Plan(
        jobs=np.array(list(given), dtype=np.int64),
        first=np.concatenate([[0], np.cumsum([len(each) for each in gpus])]).astype(np.int64),
        gpu_ids=np.array([gpu for each in gpus for gpu in each], dtype=np.int32),
        amounts=amounts,
        stopped=np.array(stopped, dtype=np.int64),
        reasons=np.array(reasons, dtype=np.int8),
    )


def _gpu(part: Part, grant: Grant, thousandths: int, books: Books, nodes: Mapping[str, int]) -> int:
    """The number of a part's GPU."""
    node = _known(part.node, nodes, "node")
    if part.gpu is None or part.gpu >= books.node_gpus[node]:
        raise _wrong(f"gives job {grant.holder} a GPU that node {part.node} does not have", part.gpu)
    if part.thousandths != thousandths:
        raise _wrong(f"gives job {grant.holder} other than {thousandths} thousandths of a GPU", part.thousandths)
    return int(books.first_gpu[node] + part.gpu)


def _amounts_of_each(grant: Grant) -> list[float]:
    """What goes with each GPU of a grant, in the order of RESOURCES."""
    beside = [[part.amounts.get(name, 0.0) for name in RESOURCES] for part in grant.parts]
    if not beside or any(each != beside[0] for each in beside):
        raise _wrong(f"must give job {grant.holder} the same beside each of its GPUs", None)
    return beside[0]


def _known(name: Hashable, numbers: Mapping[Any, int], what: str) -> int:
    if name not in numbers:
        raise _wrong(f"names a {what} that is not there", name)
    return numbers[name]


def _code(reason: str) -> int:
    if reason not in REASONS:
        raise InputError("is not a reason to wait", field="policy's plan", value=reason, hint=nearest(reason, REASONS))
    return REASONS.index(reason)


def _wrong(rule: str, value: object) -> InputError:
    return InputError(rule, field="policy's plan", value=value)

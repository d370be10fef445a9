"""The world of real jobs as one where jobs share GPUs: what its controller sees, and what it makes of a decision."""

from __future__ import annotations

import numpy as np

from gpuyard.core.grants import Grant, Part
from gpuyard.core.kernel import box
from gpuyard.policies.decide_shared import SharedDecision, SharedSnapshot
from gpuyard.policies.multiplex import SharedGpus
from gpuyard.policies.performance import plan_speeds
from gpuyard.policies.plan import Plan
from gpuyard.policies.snapshot import Snapshot, moment_of
from gpuyard.runtime.history import NEXT_ROUND
from gpuyard.runtime.real_cluster import Promises, RealCluster
from gpuyard.runtime.shared_company import SharedCompany


class SharedWorld:
    """A cluster of real jobs, decided about by an order and a multiplex policy."""

    def __init__(self, cluster: RealCluster, company: SharedCompany) -> None:
        self._cluster, self._company = cluster, company
        self._kinds = {
            name: cluster.cluster.kinds[cluster.cluster.node_kind[number]]
            for number, name in enumerate(cluster.cluster.node_names)
        }

    @property
    def now(self) -> float:
        """Seconds of the run."""
        return self._cluster.now

    def wait(self, last: SharedDecision | None) -> bool:
        """Return at the next round at which a decision can differ from the last one; False when all is over."""
        return self._cluster.wait(None if last is None else last.ordered)

    def snapshot(self) -> SharedSnapshot:
        """What is there now: what is promised counts as held."""
        seen, active = self._cluster.snapshot(), self._cluster.active()
        gpus = SharedGpus(
            self._company.gpus(self._cluster.attempts.attached), tuple(map(self._company.task, active)),
            self._company.means.model, dict(seen.quotas),
        )  # fmt: skip
        return SharedSnapshot(seen, gpus, {each.job.job_id: each.job.counted() for each in active}, self._kinds)

    def apply(self, decision: SharedDecision) -> None:
        """Promise what was decided, and begin to carry it out."""
        plan, grants, stopped, reasons = decision.plan, list[Grant](), list[int | str](), dict[int | str, str]()
        for record in self._cluster.active():
            job = record.job.job_id
            place = plan.places.get(job)
            reasons[job] = NEXT_ROUND if place is not None else plan.waits[job]
            if place is None:
                if record.target is not None:
                    stopped.append(job)
                continue
            amounts = {name: amount for name, amount in decision.beside(job).items() if amount}
            part = Part(place.node, place.gpu, place.thousandths, place.gpu_memory_gb, amounts)
            if record.target is None or record.target.parts != (part,):
                grants.append(Grant(job, (part,)))
        self._cluster.promise(Promises(grants, self._speeds(self._cluster.seen, decision, grants), stopped, reasons))

    def _speeds(self, seen: Snapshot, decision: SharedDecision, grants: list[Grant]) -> list[float]:
        """How fast each is with what it gets, if it had its GPU for itself."""
        if not grants:
            return []
        tables = moment_of(seen).tables
        first_gpu = dict(zip(seen.cluster.node_names, tables.books.first_gpu.tolist(), strict=False))
        numbers = {seen.job_id_of(int(number)): int(number) for number in seen.active}
        plan = Plan(
            np.array([numbers[grant.holder] for grant in grants], dtype=np.int64),
            np.arange(len(grants) + 1, dtype=np.int64),
            np.array([first_gpu[part.node] + int(part.gpu or 0) for grant in grants for part in grant.parts], np.int32),
            np.array([decision.amounts[grant.holder] for grant in grants], dtype=np.float64),  # type: ignore[index]
            np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8),
        )  # fmt: skip
        return [float(speed) for speed in plan_speeds(box(tables), plan)]

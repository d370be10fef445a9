"""What each difference between the original's rules and ours changes, one at a time where it can be taken alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.document import rows
from benchmarks.limits import Figure
from benchmarks.paper.cases import TENANTS, Case, Figures, Results
from benchmarks.paper.section import Study


@dataclass(frozen=True)
class Difference:
    """Two runs that differ in one rule, and the figure that shows it."""

    rule: str
    setting: str
    before: Case
    after: Case
    metric: str = "mean JCT"
    least: float | None = None
    """The least factor by which the figure must be lower afterwards."""
    most: float | None = None

    def factor(self, results: Results) -> float:
        return self.value(results[self.before]) / self.value(results[self.after])

    def value(self, figures: Figures) -> float:
        if self.metric.endswith("tenant's mean JCT"):
            return figures.by_tenant[TENANTS.index(self.metric.split()[0])]
        return figures.mean


def _modes(case: Case) -> tuple[Case, Case]:
    return replace(case, faithful=True), case


_FIFO = Case("fifo+tune")
_MULTI = Case("fifo+tune", load=4.0, multi_gpu=True)
_TENANTS = Case("drf+tune", load=9.5, tenants=True)
_WORK = Case("fifo+proportional", load=3.0, fixed_work=True)
_SRTF, _LAS = Case("srtf+tune"), Case("las+tune")

DIFFERENCES = (
    Difference(
        "a job ends inside a round", "fifo+proportional, 7/h", *_modes(Case("fifo+proportional", load=7.0)),
        least=1.0, most=1.01,
    ),
    Difference("ftf: worst ratio first", "ftf+proportional, 9/h", *_modes(Case("ftf+proportional")), least=5.0),
    Difference(
        "drf: share of what a tenant holds", "drf+tune, 9.5/h, tenants with 70, 20 and 10 % of the jobs",
        *_modes(_TENANTS), metric="small tenant's mean JCT",
    ),
    Difference("the same", "the same", *_modes(_TENANTS), metric="large tenant's mean JCT"),
    Difference("tetris: alignment with what is free", "tetris+greedy, 9/h", *_modes(Case("tetris+greedy"))),
    Difference(
        "memory binds", "fifo+proportional, 3/h, same work with 250 GB a node", *_modes(replace(_WORK, memory_gb=250)),
        most=1.0,
    ),
    Difference(
        "storage binds", "fifo+proportional, 3/h, same work with 250 MB/s a node",
        *_modes(replace(_WORK, storage_mbps=250)), most=1.0,
    ),
    Difference(
        "spread jobs are slower", "fifo+tune, multi-GPU, 4/h, best-fit", replace(_MULTI, penalty=False), _MULTI,
        most=1.02,
    ),
    Difference(
        "jobs are kept together", "fifo+tune, multi-GPU, 4/h: first-fit, then best-fit",
        replace(_MULTI, placement="first-fit"), _MULTI, least=1.0,
    ),
    Difference(
        "tune: cut only what exceeds the share, where it costs least speed; hand leftovers back", "fifo+tune, 9/h",
        *_modes(_FIFO), least=1.05,
    ),
    Difference(
        "of this, steps between share and best", "fifo+tune, 9/h: share or best, then all steps",
        replace(_FIFO, steps=False), _FIFO,
    ),
    Difference("a restart costs 1 min", "srtf+tune, 9/h", _SRTF, replace(_SRTF, restart_cost_s=60.0)),
    Difference("a restart costs 1 min", "las+tune, 9/h", _LAS, replace(_LAS, restart_cost_s=60.0), most=1.0),
    Difference(
        "a move costs 5 min", "srtf+tune, multi-GPU, 4/h", replace(_MULTI, policy="srtf+tune"),
        replace(_MULTI, policy="srtf+tune", migration_cost_s=300.0),
    ),
    Difference(
        "a checkpoint every 30 min costs 1 min", "fifo+tune, 9/h", _FIFO, replace(_FIFO, checkpoint_cost_s=60.0),
        most=1.0
    ),
)  # fmt: skip


def write(results: Results) -> str:
    content = []
    for each in DIFFERENCES:
        before, after = each.value(results[each.before]), each.value(results[each.after])
        change = f"{(after / before - 1) * 100:+.1f} %"
        content.append([each.rule, each.setting, each.metric, f"{before:.2f} h", f"{after:.2f} h", change])
    return rows(["rule", "setting", "figure", "without", "with", "change"], content)


def checks(results: Results) -> list[Figure]:
    return [
        Figure(f"{each.rule} ({each.setting}): {each.metric}, without over with", each.factor(results), "x",
               least=each.least, most=each.most)
        for each in DIFFERENCES
    ]  # fmt: skip


STUDY = Study("differences", [case for each in DIFFERENCES for case in (each.before, each.after)], write, checks)

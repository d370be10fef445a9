"""Why jobs wait: the one table from which plans, run folders, reports and documentation take codes and words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason to wait: its name and code, and how it is put where people read it."""

    name: str
    code: int
    """Stands for the reason in plans and compiled code."""
    lacks: str
    """What the job lacks now."""
    because: str
    """The same of a wait that is over, after 'waited 2 h'; `{gpus}` are the GPUs that the job may use."""
    helps: str
    """What would make such a wait shorter."""
    label: str
    """A few words for charts and tables."""

    @property
    def column(self) -> str:
        """The column of a run's jobs that has the seconds waited for this reason."""
        return f"wait_{self.name}_s"


@dataclass(frozen=True, slots=True)
class NeverReason:
    """What a job lacks that would wait for ever, whatever becomes of the others, and what would change that."""

    lacks: str
    helps: str


TOO_WIDE = NeverReason(
    lacks="it needs more GPUs of one type that it may use than there are, in service or not",
    helps="fewer GPUs for the job, more types that it may use, or more nodes",
)
ABOVE_QUOTA = NeverReason(
    lacks="it needs more GPUs than the whole quota of its tenant",
    helps="fewer GPUs for the job, or a larger quota for its tenant",
)

WAIT_REASONS = (
    WaitReason(
        name="round",
        code=0,
        lacks="the next decision has not come yet",
        because="for the next scheduling round",
        helps="shorter rounds",
        label="next scheduling round",
    ),
    WaitReason(
        name="gpus",
        code=1,
        lacks="too few of the GPUs it may use are free, the others are taken by jobs ahead of it",
        because="because {gpus} were taken by jobs ahead of it",
        helps="more GPUs or a lower load; an order that prefers it (srtf or las if it is short), or a higher priority",
        label="GPUs taken by jobs ahead",
    ),
    WaitReason(
        name="fragments",
        code=2,
        lacks="enough GPUs are free, but too scattered for it",
        because="because the free GPUs were too scattered",
        helps="fewer GPUs per job, or a placement that keeps whole nodes free, such as best-fit",
        label="free GPUs too scattered",
    ),
    WaitReason(
        name="resources",
        code=3,
        lacks="GPUs are free, but no node has its demand of CPUs, memory or storage bandwidth beside them",
        because="because CPU, memory or storage was short beside the free GPUs",
        helps="an allocation that makes do with less, such as tune; nodes with more CPUs and memory per GPU",
        label="CPU, memory or storage",
    ),
    WaitReason(
        name="quota",
        code=4,
        lacks="its tenant has used up its quota",
        because="because its tenant's quota was used up",
        helps="a larger quota for its tenant",
        label="tenant's quota",
    ),
    WaitReason(
        name="nodes",
        code=5,
        lacks="nodes are out of service, and the others are taken by jobs ahead of it",
        because="because nodes were down",
        helps="spare nodes, or faster repair",
        label="nodes down",
    ),
)
"""Every reason, in the order of the codes; a new one is added at the end."""

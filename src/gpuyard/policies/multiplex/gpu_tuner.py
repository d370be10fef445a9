"""Tunes the batch sizes of the tasks on one GPU while they run: settle, explore, apply, and then leave them in peace.

It has no clock and speaks to nobody: whoever drives it says what happened and when, and tells tasks what is `due`. A
task that does not answer is left out after a while, never waited for; so no GPU is being tuned for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import exp, log, sqrt

from gpuyard.policies.multiplex.batch_grid import BatchSizes, fitting_batches
from gpuyard.policies.multiplex.batch_search import BatchSearch
from gpuyard.policies.multiplex.shared_task import Sample, SharedTask

SAMPLE_STEPS = 5
"""A sample of fewer steps does not count."""
PATIENCE_S = 60.0
"""How long a task may be silent before it is left out."""
TUNING_PART = 0.02
"""The part of the shortest remaining time that tuning may take."""
MOST_TUNED = 3
"""Of more tasks than these, only those that came last are tuned: a search of more axes would take too long."""


class Phase(Enum):
    """What a GPU's tuner is doing."""

    STABLE = "stable"
    SETTLE = "settle"
    """Somebody came, left or changed: until everybody has been heard of."""
    EXPLORE = "explore"
    """One choice of sizes after the other is measured."""
    APPLY = "apply"
    """The best one has been found, and is not yet everybody's."""


@dataclass(frozen=True)
class Wish:
    """Which batch sizes the tasks should have; a later generation replaces an earlier one."""

    generation: int = 0
    batches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Measured:
    """Sizes of everybody on the GPU, and what each of those who answered lost by them: logarithms and their errors."""

    batches: Mapping[str, int]
    losses: Mapping[str, tuple[float, float]]


class GpuTuner:
    """The tuner of one GPU."""

    def __init__(self, capacity_gb: float) -> None:
        self._capacity_gb = capacity_gb
        self._tasks: dict[str, SharedTask] = {}
        self.phase = Phase.STABLE
        self.wish = Wish()
        self._before: Mapping[str, int] = {}
        """The sizes at which tuning began."""
        self._applied: dict[str, Wish] = {}
        """The last wish that each task has followed."""
        self._samples: dict[str, Sample] = {}
        self._silent: set[str] = set()
        self._search: BatchSearch | None = None
        self._tuned: tuple[str, ...] = ()
        self._known: list[_Measured] = []
        self._too_large: list[tuple[frozenset[str], str, int]] = []
        """In which company a task ran out of memory, and with which batch size."""
        self._phase_since = self._tuning_since = 0.0

    # What happens

    def join(self, task: SharedTask, now: float) -> None:
        """A task has come, with its own batch size."""
        self._tasks[task.name] = task
        self._settle({**self.wish.batches, task.name: task.batches.own}, now)

    def leave(self, name: str, now: float) -> None:
        """A task has ended."""
        del self._tasks[name]
        self._applied.pop(name, None)
        self._known = [each for each in self._known if name not in each.batches]
        self._too_large = [each for each in self._too_large if name not in each[0]]
        self._settle({other: size for other, size in self.wish.batches.items() if other != name}, now)

    def goes_on(self, name: str, remaining_s: float | None) -> None:
        """How long a task is likely to go on from now, None where nobody knows; a search may take its part of that."""
        if name in self._tasks:
            self._tasks[name] = replace(self._tasks[name], remaining_s=remaining_s)

    def acknowledge(self, name: str, generation: int, now: float) -> None:
        """A task trains with what was wished of it in this generation from now on."""
        if name in self._tasks and generation == self.wish.generation:
            self._applied[name] = self.wish
            self._go_on(now)

    def report(self, name: str, sample: Sample, now: float) -> None:
        """A task has measured some steps."""
        if name in self._tasks and sample.generation == self.wish.generation and sample.steps >= SAMPLE_STEPS:
            self._applied[name] = self.wish
            self._samples[name] = sample
            self._go_on(now)

    def out_of_memory(self, name: str, generation: int, now: float) -> None:
        """A task could not have the size that was wished: in this company it is not asked for so much again.

        That its own size does not fit is its own affair.
        """
        size, own = self.wish.batches.get(name, 0), self._tasks[name].batches.own if name in self._tasks else 0
        if generation != self.wish.generation or not own:
            return
        explored = self.phase is Phase.EXPLORE and name in self._tuned
        if size <= own and not explored:
            return
        self._too_large.append((frozenset(self._tasks), name, size))
        if self._before.get(name, 0) >= size:
            self._before = {**self._before, name: min(self._before[name], own)}
        if self._search is not None and name in self._tuned:
            self._search.refuse(self._tuned.index(name), size)
            self._ask_next(now)
        else:
            self._settle({**self.wish.batches, name: own}, now)

    def time_passed(self, now: float) -> None:
        """Leave out who has been silent for too long, and end what has taken too long."""
        if self.phase is not Phase.STABLE and now - self._phase_since >= PATIENCE_S:
            self._leave_out(now)

    @property
    def silent(self) -> frozenset[str]:
        """Those who did not answer, and are left out."""
        return frozenset(self._silent)

    @property
    def measurements(self) -> int:
        """How many sizes were measured in the search that goes on, or went on last."""
        return self._search.measurements if self._search is not None else 0

    @property
    def best_times(self) -> float | None:
        """How many times less everybody got done with the best sizes of that search, in the mean; None without any."""
        lowest = self._search.lowest if self._search is not None else None
        return None if lowest is None else exp(lowest)

    @property
    def due(self) -> dict[str, int]:
        """The part of the wish to be followed now: nobody grows, or begins, in memory that another has not left."""
        present = {name: wish.batches[name] for name, wish in self._applied.items()}
        most_gb = sum(
            self._tasks[name].batches.memory_gb(max(size, present.get(name, 0)))
            for name, size in self.wish.batches.items()
        )
        fits = most_gb <= self._capacity_gb
        return {name: size for name, size in self.wish.batches.items() if fits or size <= present.get(name, 0)}

    # What follows

    def _settle(self, batches: Mapping[str, int], now: float) -> None:
        """Begin anew, in this company."""
        memory_gb = sum(self._tasks[name].batches.memory_gb(size) for name, size in batches.items())
        if memory_gb > self._capacity_gb:  # whoever placed them counted with their own sizes
            batches = {name: task.batches.own for name, task in self._tasks.items()}
        self._silent.clear()
        self._search, self._before, self._tuning_since = None, batches, now
        self._enter(Phase.SETTLE if self._tasks else Phase.STABLE, batches, now)

    def _enter(self, phase: Phase, batches: Mapping[str, int], now: float) -> None:
        self.phase, self._phase_since = phase, now
        self.wish = Wish(self.wish.generation + 1, dict(batches))
        self._samples.clear()

    @property
    def _heard(self) -> list[str]:
        """Those whose degradation counts, in order of arrival."""
        return [name for name in self._tasks if name not in self._silent]

    def _go_on(self, now: float) -> None:
        if self.phase is Phase.APPLY:
            if not self._late():
                self.phase = Phase.STABLE
        elif self.phase is not Phase.STABLE and not self._late():
            self._take_in()
            if self.phase is Phase.SETTLE:
                self._begin_search()
            self._ask_next(now)

    def _take_in(self) -> None:
        """Keep what everybody measured with the sizes that are wished now."""
        losses = {}
        for name in self._heard:
            times, error = self._samples[name].degradation(self._tasks[name], self.wish.batches[name])
            losses[name] = (log(times), error)
        self._known.append(_Measured(dict(self.wish.batches), losses))
        if self._search is not None:
            self._search.tell(self._of_tuned(self.wish.batches), *self._objective(losses))

    def _begin_search(self) -> None:
        """Search from where the tasks are; what was measured in the same company before counts."""
        self._tuned = tuple(self._heard[-MOST_TUNED:])
        others = {name: size for name, size in self.wish.batches.items() if name not in self._tuned}
        left_gb = self._capacity_gb - sum(self._tasks[name].batches.memory_gb(size) for name, size in others.items())
        candidates = fitting_batches([self._tasks[name].batches for name in self._tuned], left_gb)
        start = self._of_tuned(self.wish.batches)
        if start not in candidates:  # by their memory they should not be here: nothing can be promised of other sizes
            return
        self._search = BatchSearch(candidates, start)
        for each in self._known:
            sizes = self._comparable(each.batches, others)
            if sizes in candidates and set(self._heard) <= each.losses.keys():
                self._search.tell(sizes, *self._objective(each.losses))
        for company, name, size in self._too_large:
            if company == self._tasks.keys() and name in self._tuned:
                self._search.refuse(self._tuned.index(name), size)

    def _comparable(self, batches: Mapping[str, int], others: Mapping[str, int]) -> BatchSizes | None:
        """The sizes of those who are tuned, if all else was as it is now."""
        same = batches.keys() == self._tasks.keys() and all(batches[name] == size for name, size in others.items())
        return self._of_tuned(batches) if same else None

    def _ask_next(self, now: float) -> None:
        sizes = self._search.ask() if self._search is not None and not self._spent(now) else None
        if sizes is not None:
            self._enter(Phase.EXPLORE, self._with_tuned(sizes), now)
        else:
            best = self._search.best if self._search is not None else None
            self._enter(Phase.APPLY, self._with_tuned(best) if best is not None else self._before, now)

    def _late(self) -> set[str]:
        """Those who have not yet done what this phase waits for."""
        done = {name for name, wish in self._applied.items() if wish is self.wish}
        return set(self._heard) - (done if self.phase is Phase.APPLY else self._samples.keys())

    def _leave_out(self, now: float) -> None:
        """Go on without those who have not answered; their sizes are what they last followed."""
        late = self._late()
        self._silent |= late
        theirs = {name: self._applied[name].batches[name] for name in late if name in self._applied}
        if self.phase is Phase.APPLY:
            self.phase = Phase.STABLE
        else:
            self._search, self._before = None, {**self._before, **theirs}
            self._enter(Phase.SETTLE if self._heard else Phase.STABLE, self._before, now)

    def _spent(self, now: float) -> bool:
        """Whether tuning has taken all the time that it is worth."""
        known = [task.remaining_s for task in self._tasks.values() if task.remaining_s is not None]
        return bool(known) and now - self._tuning_since > TUNING_PART * min(known)

    def _objective(self, losses: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
        """The mean of the logarithms of degradations, by weight, and its standard error."""
        weights = {name: self._tasks[name].weight for name in self._heard}
        total = sum(weights.values())
        value = sum(weight * losses[name][0] for name, weight in weights.items()) / total
        error = sqrt(sum((weight * losses[name][1]) ** 2 for name, weight in weights.items())) / total
        return value, error

    def _of_tuned(self, batches: Mapping[str, int]) -> BatchSizes:
        return tuple(batches[name] for name in self._tuned)

    def _with_tuned(self, sizes: BatchSizes) -> dict[str, int]:
        return {**self.wish.batches, **dict(zip(self._tuned, sizes, strict=True))}

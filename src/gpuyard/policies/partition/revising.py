"""From one deployment to the next with the fewest moves: what is there stays wherever it can.

First other batches and further turns on the slices that there are, then a few GPUs planned anew, and only then all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from gpuyard.core.service import Service
from gpuyard.policies.partition.cutting import GpuSlices
from gpuyard.policies.partition.deployment import Deployment, known_models
from gpuyard.policies.partition.interface import Partition, PartitionPlan, Place, Slice
from gpuyard.policies.partition.moves import moves, with_fewest_moves
from gpuyard.policies.partition.present import ROUNDING, Layouts, Present, part_of

MOST_MODELS = 3
"""That take turns on a slice, unless the policy says otherwise."""
MOST_TURNS_ADDED = 6
"""Before GPUs are rather planned anew."""
WORTH_A_TURN = 0.02
"""The part of a service's rate that a further turn must do to be worth a load."""
TRIES = 8
"""Choices of so many GPUs to plan anew that are tried."""
GIVEN_UP = 3
"""GPUs of which one is given up that are tried."""
LEAST_RATE = 1e-3


def replan(
    before: Deployment, services: Sequence[Service], policy: Partition, *, shrink: bool = False, worth: int = 8
) -> Deployment:
    """A deployment for other services or rates, with as few moves as are found, and every promise kept.

    With `shrink` it also looks for fewer GPUs, where each of them saved takes at most `worth` further moves. Where
    not all can be served, its plan says what is missing.
    """
    problem = _Problem(before, tuple(services), policy)
    found = problem.first()
    if found is None:
        return problem.most()
    return _smaller(problem, found, worth) if shrink else found


def _smaller(problem: _Problem, found: Deployment, worth: int) -> Deployment:
    """Fewer GPUs as far as that pays: all planned anew, or one after the other given up."""
    anew = problem.anew()
    tried = [found, *([anew] if anew is not None else []), *_given_up(problem, found)]
    paying = [
        each for each in tried
        if len(moves(problem.before, each))
        <= len(moves(problem.before, found)) + worth * (found.plan.gpus - each.plan.gpus)
    ]  # fmt: skip
    return min(paying, key=lambda each: (each.plan.gpus, len(moves(problem.before, each))))


def _given_up(problem: _Problem, found: Deployment) -> Iterator[Deployment]:
    """One GPU less each time, as long as the others can take its services."""
    while found.plan.gpus > 1:
        used = _used(found)
        fewest = sorted(used, key=lambda place: sum(len(part.turns) for part in used[place]))[:GIVEN_UP]
        rest = (problem.without(found, place, set(used)).on_slices() for place in fewest)
        tried = [each for each in rest if each is not None]
        if not tried:
            return
        found = min(tried, key=lambda each: len(moves(problem.before, each)))
        yield found


def _used(of: Deployment) -> dict[Place, list[Slice]]:
    found: dict[Place, list[Slice]] = {}
    for part in of.plan.slices:
        if part.turns:
            found.setdefault((part.node, part.gpu), []).append(part)
    return found


@dataclass(frozen=True, eq=False)
class _Problem(Present):
    """The ways to a deployment that serves all."""

    def without(self, found: Deployment, place: Place, used: set[Place]) -> _Problem:
        """The same, on the GPUs that a deployment uses, less one."""
        return replace(self, start=found, places=frozenset(used - {place}))

    def first(self) -> Deployment | None:
        """The first way that serves all: on the slices there are, with some GPUs planned anew, then all of them.

        Where more than one move is needed, all ways are worked out, and the one with the fewest moves is taken.
        """
        found: list[Deployment] = []
        for way in (self.on_slices, self._by_gpus, self.anew):
            one = way()
            if one is not None:
                found.append(one)
            if found and min(self._cost(each)[0] for each in found) <= 1:
                break
        return min(found, key=self._cost, default=None)

    def on_slices(self) -> Deployment | None:
        """Without any cut: all as it is, or by other batches and further turns."""
        return self._kept() or self._by_turns()

    def _cost(self, found: Deployment) -> tuple[int, int]:
        return len(moves(self.before, found)), found.plan.gpus

    def most(self) -> Deployment:
        """As much as possible where not all can be served: what is there, unless planning anew serves more."""
        kept = self.deployment(self._tuned(self.layouts()))
        anew = self._planned(self.services, self.allowed, {})
        if anew is None or (not kept.violations() and self._served(kept) > self._served(anew) * 0.99):
            return kept
        return anew

    def _served(self, found: Deployment) -> float:
        able = self.taken(found.plan.slices)
        return sum(min(1.0, able.get(name, 0.0) / rate) for name, rate in self.needed.items())

    def _kept(self) -> Deployment | None:
        """The slices as they are, to the last digit; or with their turns back to back."""
        known = {each.service_id for each in self.services}
        here = [part for part in (self.start or self.before).plan.slices if part.turns]
        untouched = all(turn.service in known for part in here for turn in part.turns)
        if untouched and all((part.node, part.gpu) in self.allowed for part in here):
            same = self.valid(self.told(tuple(here)))
            if same is not None:
                return same
        return self.valid(self.deployment(self.layouts()))

    def _by_turns(self) -> Deployment | None:
        """Other batches, and further turns on slices that are there."""
        layouts = self._tuned(self.layouts())
        for left in range(MOST_TURNS_ADDED, 0, -1):
            missing = self.missing(layouts)
            if not missing:
                break
            worst = max(missing, key=lambda name: missing[name] / self.needed[name])
            grown = self._one_more_turn(layouts, worst) if len(missing) <= left else None
            if grown is None:
                return None
            layouts = self._tuned(layouts | grown)
        return self.valid(self.deployment(layouts))

    def _wanted(self, layouts: Layouts, place: Place) -> dict[int | str, float]:
        """What this GPU has to do beside all others."""
        elsewhere = self.able({other: layout for other, layout in layouts.items() if other != place})
        return {name: max(rate - elsewhere.get(name, 0.0), 0.0) for name, rate in self.needed.items()}

    def _tuned(self, layouts: Layouts) -> Layouts:
        """The same with other batches on GPUs of services that lack something."""
        for place in list(layouts):
            missing = self.missing(layouts)
            names = {name for _, held in layouts[place] for name, _ in held}
            if not missing:
                break
            if names & set(missing):
                wanted = {name: rate for name, rate in self._wanted(layouts, place).items() if name in names}
                found = self.tuner(place).best(layouts[place], wanted)
                if found is not None and found[1] < self._left(layouts[place], place, wanted) - ROUNDING:
                    layouts = layouts | {place: found[0]}
        return layouts

    def _left(self, layout: GpuSlices, place: Place, wanted: Mapping[int | str, float]) -> float:
        able = self.able({place: layout})
        return sum(max(0.0, 1.0 - able.get(name, 0.0) / rate) for name, rate in wanted.items() if rate > 0)

    def _one_more_turn(self, layouts: Layouts, name: int | str) -> Layouts | None:
        """The one further turn that does the most of what a service lacks, on the GPUs with the most room."""
        wanted = {place: self._wanted(layouts, place) for place in layouts if self.tuner(place).serves(name)}
        roomy = sorted(wanted, key=lambda place: self._room(layouts[place], place, wanted[place]), reverse=True)
        best: tuple[float, Layouts] | None = None
        for place in roomy[: 2 * TRIES]:
            before = self._left(layouts[place], place, wanted[place])
            for layout in self._with_turn(layouts[place], name):
                found = self.tuner(place).best(layout, wanted[place]) if self.tuner(place).fits(layout) else None
                if found is not None and before - found[1] > (best[0] if best else WORTH_A_TURN):
                    best = (before - found[1], {place: found[0]})
                    if found[1] <= ROUNDING:
                        return best[1]
        return best[1] if best else None

    def _room(self, layout: GpuSlices, place: Place, wanted: Mapping[int | str, float]) -> float:
        """What a GPU does beyond what it has to: the least of its services counts."""
        able = self.able({place: layout})
        return min(1.0 - min(wanted[name] / rate, 1.0) for name, rate in able.items())

    def _with_turn(self, layout: GpuSlices, name: int | str) -> Iterator[GpuSlices]:
        most = getattr(self.policy, "most_models", MOST_MODELS)
        for here, (percent, held) in enumerate(layout):
            if len(held) < most and name not in dict(held):
                yield (*layout[:here], (percent, (*held, (name, 1))), *layout[here + 1 :])

    def _by_gpus(self) -> Deployment | None:
        """As few GPUs as possible planned anew for what the others leave; the fewest moves of some tries."""
        layouts = self._tuned(self.layouts())
        ranked = self._ranked(layouts)
        count = 1
        while count < len(self.allowed):
            found = []
            for chosen in islice(combinations(ranked[: count + TRIES], count), TRIES if count == 1 else 2):
                rest = {place: layout for place, layout in layouts.items() if place not in chosen}
                left = self._remaining(rest)
                one = self._planned(left, chosen, rest) if self._may_fit(left, count) else None
                if one is not None and self.valid(one):
                    found.append(one)
            if found:
                return min(found, key=self._cost)
            count *= 2
        return None

    def _may_fit(self, services: Sequence[Service], gpus: int) -> bool:
        """Whether so many GPUs could be enough, each used as well as it can be."""
        least = [min(tuner.least_gpus(each.service_id) for tuner in self.tuners.values()) for each in services]
        return sum(each.rate_per_s * cost for each, cost in zip(services, least, strict=True)) <= gpus

    def _ranked(self, layouts: Layouts) -> list[Place]:
        """Unused GPUs first, one of each kind before further ones, then those with the fewest turns."""
        unused = [place for place in self.allowed if place not in layouts]
        first = list({self.kind(place): place for place in reversed(unused)}.values())
        used = sorted(layouts, key=lambda place: sum(len(held) for _, held in layouts[place]))
        return [*first, *used, *(place for place in unused if place not in first)]

    def _remaining(self, rest: Layouts) -> list[Service]:
        """Services with what other GPUs leave of their rates."""
        able = self.able(rest)
        left = {each.service_id: self.needed[each.service_id] - able.get(each.service_id, 0.0)
                for each in self.services}  # fmt: skip
        return [
            replace(each, rate_per_s=max(left[each.service_id], LEAST_RATE)) for each in self.services
            if left[each.service_id] > ROUNDING * self.needed[each.service_id]
        ]  # fmt: skip

    def anew(self) -> Deployment | None:
        """All GPUs planned anew."""
        found = self._planned(self.services, self.allowed, {})
        return self.valid(found) if found is not None else None

    def _planned(self, services: Sequence[Service], places: Sequence[Place], rest: Layouts) -> Deployment | None:
        """These services planned anew on these GPUs, beside all that stays on others."""
        if not services:
            return self.deployment(rest)
        part, numbers = part_of(self.before.cluster, places)
        plan = self.policy.plan(services, part, known_models(part, self.before.latencies, self.before.devices))
        slices = tuple(replace(each, gpu=numbers[each.node][each.gpu]) for each in plan.slices if each.turns)
        found = with_fewest_moves(self.before, replace(self.blank, plan=PartitionPlan(slices)), places)
        return self.told((*self.slices(rest), *found.plan.slices))

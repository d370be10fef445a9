"""Request rates as they are counted: a moving average of each service, and when it calls for another plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from gpuyard.core.arguments import check_number
from gpuyard.core.errors import InputError, nearest

NOISE = 3.0
"""Standard deviations of the average that chance alone may add; no growth within them is acted upon."""

SHORTEST_S = 1e-3


@dataclass(frozen=True)
class Tracking:
    """How rates are followed; the figures are gpulet's, but for the history."""

    period_s: float = 20.0
    """From one decision to the next."""
    count_every_s: float = 0.5
    history: int = 3
    """Decisions whose averages count; the highest of them is planned for, so that a short lull shrinks nothing."""
    small_rate: float = 125.0
    """Below it, rates get `small_headroom`, since they vary more."""
    small_headroom: float = 1.5
    headroom: float = 1.2
    grow_part: float = 0.05
    grow_rate: float = 10.0
    """A target has grown when it is above the present one by this part or by so many requests a second."""
    shrink_part: float = 0.1
    idle_rate: float = 1.0
    """The least that is planned for. Below it, whoever is not asked at all is idle: nothing is planned until it is."""

    def __post_init__(self) -> None:
        check_number(self.count_every_s, "count_every_s", least=SHORTEST_S)
        check_number(self.period_s, "period_s", least=self.count_every_s)
        check_number(self.history, "history", least=1, whole=True)
        for name in ("small_headroom", "headroom"):
            check_number(getattr(self, name), name, least=1)

    @classmethod
    def each(cls, period_s: float) -> Tracking:
        """Decide once in so many seconds, and count as often as ever, but at least once for each decision."""
        check_number(period_s, "period_s", least=SHORTEST_S)
        return cls(period_s=period_s, count_every_s=min(cls.count_every_s, period_s))

    @property
    def counts_a_period(self) -> int:
        """How many counts there are from one decision to the next."""
        return round(self.period_s / self.count_every_s)

    @property
    def weight(self) -> float:
        """Of the latest count in the average: that of an average over about one period."""
        return 2.0 / (self.period_s / self.count_every_s + 1.0)

    def target(self, rate: float) -> float:
        """Requests a second to be ready for at this average."""
        return rate * self._headroom(rate) if rate >= self.idle_rate else 0.0

    def noise(self, rate: float) -> float:
        """How far a target may be off by chance alone, where arrivals are random at this rate."""
        of_average = rate / self.count_every_s * self.weight / (2.0 - self.weight)
        return NOISE * sqrt(of_average) * self._headroom(rate)

    def _headroom(self, rate: float) -> float:
        return self.small_headroom if rate < self.small_rate else self.headroom

    def has_grown(self, target: float, present: float, rate: float) -> bool:
        """Whether more has to be planned for."""
        more = target - present
        return more > min(self.grow_part * present, self.grow_rate) and more > self.noise(rate)

    def has_shrunk(self, target: float, present: float) -> bool:
        """Whether less would do."""
        return target < present * (1.0 - self.shrink_part)


class Tracker:
    """The averages of all services, and the targets that the present plan was made for."""

    def __init__(self, rates: Mapping[int | str, float], options: Tracking) -> None:
        self.options = options
        self.average = dict(rates)
        """Requests a second, now."""
        self._asked = {name: deque([0], maxlen=options.history) for name in rates}
        """How often in the time before each of the last decisions, and since."""
        self._rare = {name for name, rate in rates.items() if 0 < rate < options.idle_rate}
        """Never idle: requests so rare are expected, and nothing comes for a long time between them."""
        self.target = {name: self._target(name, rate) for name, rate in rates.items()}
        """What the plan was made for; 0 for a service that is idle."""
        self._history = {name: deque([rate], maxlen=options.history) for name, rate in rates.items()}

    def count(self, arrived: Mapping[int | str, int]) -> None:
        """Take in the requests since the last count; a service that is not named had none."""
        for name in arrived:
            if name not in self.average:
                hint = nearest(str(name), map(str, self.average))
                raise InputError("is not a service that is tracked", field="service", value=name, hint=hint)
        for name, average in self.average.items():
            self._asked[name][-1] += arrived.get(name, 0)
            rate = arrived.get(name, 0) / self.options.count_every_s
            self.average[name] = average + self.options.weight * (rate - average)

    def revise(self) -> tuple[set[int | str], set[int | str]]:
        """Set the targets anew where rates have changed enough; returns who grew and who shrank."""
        grown, shrunk = set(), set()
        for name, average in self.average.items():
            self._history[name].append(average)
            rate = max(self._history[name])
            target, present = self._target(name, rate), self.target[name]
            self._asked[name].append(0)
            if (target and not present) or self.options.has_grown(target, present, rate):
                grown.add(name)
            elif self.options.has_shrunk(target, present):
                shrunk.add(name)
            else:
                continue
            self.target[name] = target
        return grown, shrunk

    def _target(self, name: int | str, rate: float) -> float:
        """What to be ready for: a little for every service that is asked at all, or that is asked so rarely."""
        wanted = name in self._rare or any(self._asked[name])
        return self.options.target(max(rate, self.options.idle_rate) if wanted else rate)

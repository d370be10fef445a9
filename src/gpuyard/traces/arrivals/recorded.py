"""Streams after recorded traces: their ups and downs, at the rates of our services.

A trace gives a service the course of its load over time. The service gets as many requests as its rate times the
duration, rounded, and they are drawn by a generator of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import numpy as np

from gpuyard.core.arguments import check_number
from gpuyard.core.errors import InputError
from gpuyard.traces.arrivals.course import Course, Window
from gpuyard.traces.arrivals.request_traces import Stamps, read_stamps
from gpuyard.traces.arrivals.value import Arrivals, ServiceId, check_rates, merged, stream_of

Trace = str | PathLike[str]


def recorded(
    trace: Trace | Mapping[ServiceId, Trace],
    rates: Mapping[ServiceId, float],
    seconds: float,
    seed: int = 1,
    *,
    speed: float | None = None,
    start_s: float = 0.0,
    by: str | None = None,
    failed: bool = False,
    scaled: bool = True,
) -> Arrivals:
    """Requests after one recorded trace, or after one for each service.

    `speed` is how much faster than recorded time goes, from `start_s` of the trace on; None fits one round of the trace
    into the duration. A trace that ends begins again, one mean gap after its last request. `by` names a column of a
    single trace: its values, the most frequent first, are dealt to the services in turn, and each service follows its
    own requests. With `scaled=False` requests are replayed as recorded; those of a trace that services share go to one
    of them each, at random, in proportion to rates. With `failed`, requests that the trace marks as unanswered count.
    """
    check_rates(rates, seconds, seed)
    check_number(start_s, "start_s", least=0)
    if speed is not None:
        check_number(speed, "speed", least=1e-9)
    courses = _courses(trace, tuple(rates), by, failed)
    windows = {
        service: Window(start_s, speed or course.round_s / seconds, seconds) for service, course in courses.items()
    }
    if scaled:
        streams = [
            courses[each].drawn(round(rates[each] * seconds), windows[each], stream_of(each, seed)) for each in rates
        ]
        return merged(tuple(rates), streams)
    if by is None and not isinstance(trace, Mapping):
        shared = next(iter(courses))
        return _dealt(courses[shared], windows[shared], rates, seed)
    return merged(tuple(rates), [courses[each].replayed(windows[each]) for each in rates])


def _courses(
    trace: Trace | Mapping[ServiceId, Trace], services: tuple[ServiceId, ...], by: str | None, failed: bool
) -> dict[ServiceId, Course]:
    if isinstance(trace, Mapping):
        missing = [each for each in services if each not in trace]
        if missing or by is not None:
            rule = f"has no trace of its own: {missing[0]}" if missing else "needs a single trace, not one a service"
            raise InputError(rule, field="trace" if missing else "by", value=by)
        return {each: _course(read_stamps(trace[each], failed=failed)) for each in services}
    stamps = read_stamps(trace, failed=failed)
    whole = _course(stamps)
    if by is None:
        return dict.fromkeys(services, whole)
    groups = stamps.groups(by)
    if len(groups) < len(services):
        rule = f"has {len(groups)} values, fewer than the {len(services)} services that follow them"
        raise InputError(rule, file=stamps.name, field=by)
    dealt = [np.sort(np.concatenate(groups[turn :: len(services)])) for turn in range(len(services))]
    own = [Course(whole.times_s[positions.astype(np.int64)], whole.round_s) for positions in dealt]
    return dict(zip(services, own, strict=True))


def _course(stamps: Stamps) -> Course:
    last_s = float(stamps.times_s[-1])
    gap_s = last_s / (len(stamps.times_s) - 1) if last_s else 1.0
    return Course(stamps.times_s, last_s + gap_s)


def _dealt(course: Course, window: Window, rates: Mapping[ServiceId, float], seed: int) -> Arrivals:
    total = sum(rates.values())
    if not total:
        return merged(tuple(rates), [np.empty(0) for _ in rates])
    times_s = course.replayed(window)
    shares = np.array(list(rates.values())) / total
    service = np.random.default_rng(seed).choice(len(rates), size=len(times_s), p=shares)
    return Arrivals(tuple(rates), times_s, service.astype(np.int64))

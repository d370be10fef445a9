"""Policies of time sharing as they are written on the command line."""

import pytest

from gpuyard.core.errors import InputError
from gpuyard.policies.timeshare import TIME_SHARINGS, Priority, Spatial, TimeSlice, time_sharing


@pytest.mark.parametrize("name", TIME_SHARINGS)
def test_what_is_written_reads_the_same(name: str) -> None:
    assert time_sharing(str(time_sharing(name))) == TIME_SHARINGS[name]()


def test_options_may_be_left_out() -> None:
    assert time_sharing("time-slice") == TimeSlice()
    assert time_sharing("time-slice:quantum=5ms") == TimeSlice(quantum_s=0.005)
    assert time_sharing("priority:quantum=1ms, switch=2s") == Priority(0.001, 2.0)
    assert time_sharing("spatial:capacity=1.5,interference=1") == Spatial(1.5, 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timeslice", "field sharing: 'timeslice' is not a sharing policy. Did you mean 'time-slice'"),
        ("", "'' is not a sharing policy. Known: exclusive, fifo"),
        ("time-slice:quantom=2ms", "'quantom' is not an option of time-slice. Did you mean 'quantum'"),
        ("fifo:quantum=2ms", "'quantum' is not an option of fifo. fifo has no options"),
        ("time-slice:quantum", "field sharing: 'quantum' lacks a value: write quantum=…"),
        ("time-slice:quantum=2", "field sharing, quantum: '2' is not a number with a unit of s, ms, us"),
        ("time-slice:quantum=0ms", "'0ms' is not a positive time"),
        ("spatial:interference=1.5", "'1.5' is not a factor above 0 and at most 1"),
        ("spatial:capacity=-1", "'-1' is not a number"),
        ("time-slice:quantum=1ms,quantum=2ms", "'quantum' is given twice"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        time_sharing(text)
    assert message in str(caught.value)

"""Applications: stages in their order, and the ways through them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.application import Application, Stage
from gpuyard.core.errors import InputError

TRAFFIC = Application(
    "traffic", 100.0, 202.0,
    (Stage("cars", "googlenet", ("find",)), Stage("faces", "vgg16", ("find",)), Stage("find", "ssd-mobilenetv1")),
)  # fmt: skip


def test_stages_come_after_what_they_wait_for() -> None:
    assert [stage.name for stage in TRAFFIC.stages] == ["find", "cars", "faces"]
    assert TRAFFIC.service_id("find") == "traffic/find"


def test_the_longest_way_counts() -> None:
    times = {"find": 10.0, "cars": 5.0, "faces": 20.0}
    assert TRAFFIC.longest(times) == 30.0
    assert TRAFFIC.longest_through(times) == {"find": 30.0, "cars": 15.0, "faces": 30.0}


@pytest.mark.parametrize(
    ("stages", "rule"),
    [
        ((), "needs at least one stage"),
        ((Stage("a", "bert"), Stage("a", "vgg16")), "'a' stands twice"),
        ((Stage("a", "bert", ("c",)),), "'c' is not a stage"),
        ((Stage("a", "bert", ("b",)), Stage("b", "bert", ("a",))), "'a' waits for itself"),
    ],
)
def test_what_is_no_application_is_refused(stages: tuple[Stage, ...], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        Application("one", 1.0, 10.0, stages)


@st.composite
def applications(draw: st.DrawFn) -> Application:
    """Any order of stages in which each waits for some before it."""
    count = draw(st.integers(1, 6))
    stages = []
    for number in range(count):
        after = draw(st.sets(st.integers(0, number - 1))) if number else set()
        stages.append(Stage(f"s{number}", "bert", tuple(f"s{each}" for each in sorted(after))))
    return Application("any", 10.0, draw(st.floats(50.0, 500.0)), tuple(draw(st.permutations(stages))))


@given(applications(), st.data())
def test_the_longest_way_is_the_longest_through_some_stage(application: Application, data: st.DataObject) -> None:
    times = {stage.name: data.draw(st.floats(0.1, 100.0)) for stage in application.stages}
    through = application.longest_through(times)
    assert max(through.values()) == pytest.approx(application.longest(times))
    assert all(through[name] >= ms for name, ms in times.items())

"""What is emulated and how: checked once, and carried through the environment without loss."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.core.errors import InputError
from gpuyard.emulation.session import visible_gpus
from gpuyard.emulation.settings import Settings, read_loss

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)


@given(
    st.builds(
        Settings,
        gpus=st.sampled_from(["A100", "4xV100", "2xV100+1xK80"]),
        node=st.one_of(st.just(""), NAMES),
        clock=st.sampled_from(["real", "virtual", "device"]),
        speed=st.floats(0.001, 1000),
        sharing=st.sampled_from(["", "fifo", "time-slice:quantum=1ms"]),
        priority=st.integers(-5, 5),
        share=st.floats(0.01, 1.0),
        memory_limit=st.sampled_from(["", "10GB", "512MiB"]),
        jitter=st.floats(0, 1),
        warm_up=st.floats(0.1, 100),
        seed=st.integers(0, 2**40),
        compute=st.booleans(),
        loss=st.lists(st.floats(-10, 10), max_size=4).map(tuple),
        granularity=st.sampled_from(["auto", "op", "pass"]),
        report=st.one_of(st.just(""), NAMES),
    )
)
def test_the_environment_carries_every_setting(settings: Settings) -> None:
    assert Settings.from_environment(settings.environment()) == settings


def test_without_gpus_nothing_is_emulated() -> None:
    assert Settings.from_environment({"GPUYARD_CLOCK": "nonsense"}) is None
    assert Settings.from_environment({"GPUYARD_GPUS": ""}) is None


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("CLOCK", "vitual", "'vitual' is not a clock. Did you mean 'virtual'"),
        ("GRANULARITY", "ops", "'ops' is not a granularity. Did you mean 'op'"),
        ("SPEED", "fast", "'fast' is not a number"),
        ("SPEED", "0", "is not a positive number"),
        ("SPEED", "nan", "is not a positive number"),
        ("SPEED", "inf", "is not a positive number"),
        ("SHARE", "1.5", "1.5 is no part of a GPU"),
        ("JITTER", "-0.1", "-0.1 is not a number from 0 on"),
        ("WARM_UP", "0", "is not a positive number"),
        ("SEED", "1.5", "'1.5' is not a number"),
        ("COMPUTE", "maybe", "'maybe' is not 0 or 1"),
        ("MEMORY_LIMIT", "10 parsecs", "'10 parsecs' is not a number with a unit of mb, gb, mib, gib"),
        ("MEMORY_LIMIT", "0", "'0' leaves no memory at all"),
        ("SHARING", "fair", "'fair' is not a sharing policy"),
        ("LOSS", "1,two", "is not a loss curve"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(variable: str, value: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        Settings.from_environment({"GPUYARD_GPUS": "V100", f"GPUYARD_{variable}": value})
    assert message in str(refused.value)
    assert variable.lower() in str(refused.value).lower(), "it says which one"


@pytest.mark.parametrize(
    ("text", "nbytes"), [("10", 10**10), ("10GB", 10**10), ("10GiB", 10 * 2**30), ("500mib", 500 * 2**20)]
)
def test_memory_limits_are_what_their_units_say(text: str, nbytes: int) -> None:
    assert Settings("V100", memory_limit=text).memory_limit_bytes == nbytes


def test_programs_that_ask_for_the_same_machine_meet_on_it() -> None:
    plain = Settings("2xV100")
    assert plain.node_name == replace(plain, seed=7, jitter=0.1).node_name
    assert replace(plain, node="mine").node_name == "mine"
    others = {replace(plain, speed=2.0).node_name, replace(plain, sharing="fifo").node_name, Settings("V100").node_name}
    assert len(others | {plain.node_name}) == 4


def test_a_loss_curve_comes_from_the_command_line_or_a_file(tmp_path: Path) -> None:
    assert read_loss("2.5, 1,0.5") == (2.5, 1.0, 0.5)
    curve = tmp_path / "loss.txt"
    curve.write_text("3\n2\n1\n", encoding="utf-8")
    assert read_loss(str(curve)) == (3.0, 2.0, 1.0)
    curve.write_text("3\nlow\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"loss\.txt.*is not a loss curve"):
        read_loss(str(curve))
    curve.write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match="holds no numbers"):
        read_loss(str(curve))


@pytest.mark.parametrize(
    ("restriction", "seen"),
    [
        (None, (0, 1, 2, 3)), ("", ()), ("-1", ()), ("2", (2,)), ("3,1", (3, 1)), (" 0 , 2 ", (0, 2)),
        ("1,9,2", (1,)), ("0,x,1", (0,)), ("NoDevFiles", ()),
    ],
)  # fmt: skip
def test_visible_gpus_are_those_before_the_first_that_does_not_exist(
    restriction: str | None, seen: tuple[int, ...]
) -> None:
    assert visible_gpus(4, restriction) == seen


def test_a_gpu_is_not_visible_twice() -> None:
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES: '1,1' names a GPU twice"):
        visible_gpus(4, "1,1")

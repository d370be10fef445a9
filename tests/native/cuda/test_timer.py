"""Time as kernels see it: the GPU's timer, naps, and that a kernel takes as long as it saw pass."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.native.cuda.driver import HEADER, SUCCESS, Driver, kernel

from gpuyard.sharing.kernels import SPIN, spinning_code

FLOOR_US = 3.0
"""The shortest that a kernel takes on an A100."""
LOOK_US = 1.0
"""How far the timer is when it is looked at again."""
STORE = "mad.wide.u32 %rd40, %r0, 8, %rd0; st.global.u64 [%rd40], %rd20;"
NAP_LOOK = f"mov.u32 %r1, 7000; @%p1 nanosleep.u32 %r1; bar.sync 0; mov.u64 %rd20, %globaltimer; {STORE}"


def lasting_us(driver: Driver, text: str, arguments: Sequence[Any] = (), *, grid: int = 1, block: int = 1) -> float:
    """Launch a kernel `k` and return how long it took by events."""
    function, events = driver.function(driver.load(text), "k"), (ctypes.c_void_p(), ctypes.c_void_p())
    for event in events:
        driver.call("cuEventCreate", ctypes.byref(event), 0)
    driver.call("cuEventRecord", events[0], None)
    assert driver.launch(function, (grid,), (block,), list(arguments)) == SUCCESS
    driver.call("cuEventRecord", events[1], None)
    driver.call("cuEventSynchronize", events[1])
    told = ctypes.c_float()
    driver.call("cuEventElapsedTime", ctypes.byref(told), *events)
    return told.value * 1000


@pytest.fixture
def nothing_us(driver: Driver) -> float:
    """What is measured of a kernel that does nothing: it begins a little after its launch."""
    return lasting_us(driver, HEADER + ".visible .entry k() { ret; }")


@pytest.mark.parametrize("length_us", [20, 300, 12_345])
def test_a_kernel_that_waits_for_a_time_takes_that_time(driver: Driver, nothing_us: float, length_us: int) -> None:
    length = ctypes.c_uint64(length_us * 1000)
    lasted = lasting_us(driver, SPIN.replace("spin", "k"), [length]) - nothing_us
    assert length_us + LOOK_US <= lasted + 1e-2
    assert lasted <= length_us + 2 * LOOK_US + 1e-2


def test_naps_of_lanes_and_warps_and_blocks_pass_at_one_time(driver: Driver, nothing_us: float) -> None:
    """Lane 31 of warp 1 naps longest, 63 us; a nap is a millisecond at most."""
    nap = (
        HEADER + ".visible .entry k() { .reg .u32 %t; mov.u32 %t, %tid.x; mul.lo.u32 %t, %t, 1000; nanosleep.u32 %t; }"
    )
    assert lasting_us(driver, nap, block=64, grid=5) - nothing_us == pytest.approx(63.0, abs=1e-2)
    assert lasting_us(driver, nap.replace("1000", "50000"), block=64) - nothing_us == pytest.approx(1000.0, abs=1e-2)


def test_who_waits_for_others_at_a_barrier_is_as_late_as_they_are(driver: Driver) -> None:
    body = f"setp.ge.u32 %p1, %r0, 32; {NAP_LOOK}"
    seen = driver.run(body, [], np.zeros(64, "u8"), block=64)
    alone = driver.run(body, [], np.zeros(32, "u8"), block=32)
    assert len(set(seen.tolist())) == 1
    assert len(set(alone.tolist())) == 1


def test_each_block_begins_when_the_kernel_does(driver: Driver) -> None:
    seen = driver.run(f"setp.ge.u32 %p1, %r0, 32; {NAP_LOOK}", [], np.zeros(96, "u8"), block=32, grid=3)
    first, second, third = seen.reshape(3, 32)[:, 0].tolist()
    assert second == third == first + 7000


def test_the_timer_goes_on_from_kernel_to_kernel(driver: Driver) -> None:
    body = f"mov.u64 %rd20, %globaltimer; {STORE}"
    first, later = (int(driver.run(body, [], np.zeros(1, "u8"), block=1)[0]) for _ in range(2))
    assert later - first >= FLOOR_US * 1000


def test_both_halves_of_the_timer_are_the_timer(driver: Driver) -> None:
    """Beyond the first four seconds the upper half counts; a look at a half is a look."""
    wait = kernel("mov.u32 %r1, 1000000; mov.u32 %r2, 0; again: nanosleep.u32 %r1; add.u32 %r2, %r2, 1; "
                  "setp.lt.u32 %p1, %r2, 4300; @%p1 bra again;", 0)  # fmt: skip
    lasting_us(driver, wait)
    body = f"""
    mov.u64 %rd1, %globaltimer; mov.u32 %r1, %globaltimer_lo; mov.u32 %r2, %globaltimer_hi;
    mov.b64 %rd2, {{%r1, %r2}}; sub.u64 %rd20, %rd2, %rd1; {STORE}
    """
    assert driver.run(body, [], np.zeros(1, "u8"), block=1).tolist() == [LOOK_US * 1000]
    high = driver.run(f"mov.u32 %r1, %globaltimer_hi; cvt.u64.u32 %rd20, %r1; {STORE}", [], np.zeros(1, "u8"), block=1)
    assert high[0] >= 1


def test_code_of_an_experiment_takes_off_what_a_kernel_takes_anyway() -> None:
    code = spinning_code([3e-4, 4e-6], overhead_ns=5000)
    assert code.nanoseconds == (295_000, 0)
    assert code.functions == ("spin", "spin")

"""What a pool says that it has in use, and which copies are faster."""

import ctypes

import pytest
from tests.native.cuda.driver import Driver

MIB = 1 << 20
USED_CURRENT, USED_HIGH = 7, 8


def test_a_pool_counts_what_is_in_use_and_the_most_that_ever_was(driver: Driver) -> None:
    pool, address, value = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()

    def used() -> list[int]:
        found = []
        for attribute in (USED_CURRENT, USED_HIGH):
            driver.call("cuMemPoolGetAttribute", pool, attribute, ctypes.byref(value))
            found.append(value.value)
        return found

    driver.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), 0)
    before = used()[0]
    driver.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(MIB), None)
    assert used() == [before + MIB, before + MIB]
    driver.call("cuMemFreeAsync", address, None)
    assert used() == [before, before + MIB]


@pytest.mark.parametrize("name", ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"])
def test_copies_from_and_to_pinned_memory_are_faster(driver: Driver, name: str) -> None:
    pinned, start, end, passed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
    device = ctypes.c_uint64(driver.allocate(8 * MIB))
    driver.call("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(8 * MIB), 0)
    for event in (start, end):
        driver.call("cuEventCreate", ctypes.byref(event), 0)

    def milliseconds(host: ctypes.c_void_p) -> float:
        driver.call("cuEventRecord", start, None)
        sides = (device, host) if "HtoD" in name else (host, device)
        driver.call(name, *sides, ctypes.c_size_t(8 * MIB), None)
        driver.call("cuEventRecord", end, None)
        driver.call("cuEventSynchronize", end)
        driver.call("cuEventElapsedTime", ctypes.byref(passed), start, end)
        return passed.value

    pageable = ctypes.create_string_buffer(8 * MIB)
    assert milliseconds(pinned) < 0.9 * milliseconds(ctypes.cast(pageable, ctypes.c_void_p))
    driver.call("cuMemFreeHost", pinned)
    driver.free(device.value)

"""A limit on memory: every kind of allocation counts, every kind of freeing is credited."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.native.gate.driver.programs import run

FORMS = {
    "plain": ("cuda.cuMemAlloc_v2(ref, size(BYTES))", "cuda.cuMemFree_v2(made)"),
    "managed": ("cuda.cuMemAllocManaged(ref, size(BYTES), 1)", "cuda.cuMemFree_v2(made)"),
    "queued": ("cuda.cuMemAllocAsync(ref, size(BYTES), None)", "cuda.cuMemFreeAsync(made, None)"),
    "pool": ("cuda.cuMemAllocFromPoolAsync(ref, size(BYTES), None, None)", "cuda.cuMemFreeAsync(made, None)"),
    "queued, per thread": ("cuda.cuMemAllocAsync_ptsz(ref, size(BYTES), None)", "cuda.cuMemFreeAsync_ptsz(made, None)"),
    "pool, per thread": (
        "cuda.cuMemAllocFromPoolAsync_ptsz(ref, size(BYTES), None, None)",
        "cuda.cuMemFreeAsync_ptsz(made, None)",
    ),
    "pitch": (
        "cuda.cuMemAllocPitch_v2(ref, ctypes.byref(size()), size(500), size(BYTES // 512), 4)",
        "cuda.cuMemFree_v2(made)",
    ),
    "physical": ("cuda.cuMemCreate(ref, size(BYTES), on_gpu, 0)", "cuda.cuMemRelease(made)"),
    "array": ("cuda.cuArrayCreate_v2(ref, shape(BYTES // 4, 1))", "cuda.cuArrayDestroy(ctypes.c_void_p(made.value))"),
}
HELPERS = """
size = ctypes.c_size_t
made = ctypes.c_uint64()
ref = ctypes.byref(made)
on_gpu = (ctypes.c_uint * 8)(1, 0, 1, 0)
def shape(width, height):
    class Shape(ctypes.Structure):
        _fields_ = [("width", size), ("height", size), ("format", ctypes.c_uint), ("channels", ctypes.c_uint)]
    return ctypes.byref(Shape(width, height, 0x20, 1))
def info():
    free, total = size(), size()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return [free.value, total.value]
"""


@pytest.mark.parametrize("form", FORMS)
def test_what_is_freed_can_be_allocated_again(still: Path, form: str) -> None:
    """The limit has room for one of them, the GPU for 19: what the limit refuses does not stay there."""
    allocate, free = FORMS[form]
    shown = run(
        still,
        HELPERS
        + f"""
BYTES = 51200
codes = []
for _ in range(25):
    codes.append({allocate})
    kept = made.value
    codes.append({allocate})
    made.value = kept
    codes.append(mine().memory_used)
    check({free})
codes.append(mine().memory_used)
show(codes=codes, free=info())
""",
        memory=95000,
    )
    assert shown == {"codes": [0, 2, 51200] * 25 + [0], "free": [95000, 95000]}


def test_arrays_count_with_their_depth_and_all_their_levels(still: Path) -> None:
    """10 x 6 x 4 elements of two halves; the next levels have 5 x 3 x 2 and 2 x 1 x 1."""
    shown = run(
        still,
        HELPERS
        + """
class Shape(ctypes.Structure):
    _fields_ = [(name, size) for name in ("width", "height", "depth")]
    _fields_ += [(name, ctypes.c_uint) for name in ("format", "channels", "flags")]
shape, used = ctypes.byref(Shape(10, 6, 4, 0x10, 2, 0)), []
check(cuda.cuArray3DCreate_v2(ref, shape))
used.append(mine().memory_used)
check(cuda.cuArrayDestroy(ctypes.c_void_p(made.value)))
check(cuda.cuMipmappedArrayCreate(ref, shape, 3))
used.append(mine().memory_used)
check(cuda.cuMipmappedArrayDestroy(ctypes.c_void_p(made.value)))
show(used=[*used, mine().memory_used])
""",
    )
    assert shown == {"used": [960, 960 + 120 + 8, 0]}


def test_a_program_sees_a_gpu_no_larger_than_its_limit(still: Path) -> None:
    shown = run(
        still,
        HELPERS
        + """
total = size()
check(cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0))
before = info()
allocate(1000)
show(total=total.value, before=before, after=info())
""",
        memory=4000,
    )
    assert shown == {"total": 4000, "before": [4000, 4000], "after": [3000, 4000]}


def test_without_a_limit_a_program_sees_the_gpu_as_it_is_and_its_use_is_counted(still: Path) -> None:
    shown = run(still, HELPERS + "allocate(1000)\nshow(info=info(), used=mine().memory_used)")
    assert shown == {"info": [999000, 1000000], "used": 1000}


def test_a_gpu_that_has_less_left_than_the_limit_says_so(still: Path) -> None:
    shown = run(
        still, HELPERS + "show(code=allocate(1500000)[0], used=mine().memory_used, info=info())", memory=2000000
    )
    assert shown == {"code": 2, "used": 0, "info": [1000000, 1000000]}


def test_physical_memory_with_several_users_is_credited_with_the_last(still: Path) -> None:
    shown = run(
        still,
        HELPERS
        + """
check(cuda.cuMemCreate(ref, size(512), on_gpu, 0))
again = ctypes.c_uint64()
check(cuda.cuMemRetainAllocationHandle(ctypes.byref(again), ctypes.c_void_p(made.value)))
used = []
for _ in range(2):
    check(cuda.cuMemRelease(made))
    used.append(mine().memory_used)
show(used=used)
""",
    )
    assert shown == {"used": [512, 0]}


def test_an_address_that_comes_back_counts_once(still: Path) -> None:
    """Memory may be given back by ways that the gate does not stand before: then the driver uses its address again."""
    shown = run(
        still,
        HELPERS
        + """
code, address = allocate(300)
ctypes.c_uint64.in_dll(cuda, "still_next_address").value = address.value
codes = [code, allocate(200)[0], allocate(1000)[0]]
used = [mine().memory_used]
check(cuda.cuMemFree_v2(address))
show(codes=codes, used=[*used, mine().memory_used])
""",
        memory=1200,
    )
    assert shown == {"codes": [0, 0, 0], "used": [1000, 0]}


def test_an_address_that_another_thread_has_by_now_stays_counted(still: Path) -> None:
    """The driver may give it away again before whoever freed it has come back from there."""
    shown = run(
        still,
        HELPERS
        + """
def allocate_there(address):
    check(cuda.cuCtxSetCurrent(context))
    ctypes.c_uint64.in_dll(cuda, "still_next_address").value = address
    check(allocate(700)[0])
@ctypes.CFUNCTYPE(None, ctypes.c_uint64)
def freed(address):
    ctypes.c_void_p.in_dll(cuda, "still_freed").value = None
    other = threading.Thread(target=allocate_there, args=(address,))
    other.start()
    other.join()
code, address = allocate(300)
ctypes.c_void_p.in_dll(cuda, "still_freed").value = ctypes.cast(freed, ctypes.c_void_p).value
check(cuda.cuMemFree_v2(address))
used = [mine().memory_used]
check(cuda.cuMemFree_v2(address))
show(used=[*used, mine().memory_used])
""",
    )
    assert shown == {"used": [700, 0]}


def test_a_primary_context_ends_with_its_last_user_and_its_memory_returns(still: Path) -> None:
    shown = run(
        still,
        HELPERS
        + """
device_context()
allocate(700)
used = []
for _ in range(2):
    check(cuda.cuDevicePrimaryCtxRelease_v2(0))
    used.append(mine().memory_used)
show(used=used)
""",
    )
    assert shown == {"used": [700, 0]}


def test_memory_that_is_freed_with_the_context_returns(still: Path) -> None:
    shown = run(
        still, HELPERS + "allocate(700)\ncheck(cuda.cuDevicePrimaryCtxReset_v2(0))\nshow(used=mine().memory_used)"
    )
    assert shown == {"used": 0}

"""How PTX runs: branches, calls, barriers, memory of all kinds, and what the lanes of a warp do together."""

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from tests.native.cuda.driver import (
    ASSERT,
    HEADER,
    ILLEGAL_ADDRESS,
    INVALID_VALUE,
    LAUNCH_FAILED,
    MISALIGNED_ADDRESS,
    NOT_SUPPORTED,
    SUCCESS,
    Driver,
    DriverError,
)

STORE = "mad.wide.u32 %rd40, %r0, 4, %rd0; st.global.u32 [%rd40], %r20;"
THREADS = np.arange(64, dtype="u4")


def test_lanes_that_part_meet_again(driver: Driver) -> None:
    """Each lane counts its own number down; then all of them vote, for which all must be there."""
    body = f"""
    mov.u32 %r1, %r0; mov.u32 %r2, 0;
    again: setp.eq.u32 %p1, %r1, 0; @%p1 bra done; add.u32 %r2, %r2, %r1; sub.u32 %r1, %r1, 1; bra again;
    done: setp.ne.u32 %p2, %r2, 1000000; vote.sync.ballot.b32 %r3, %p2, -1; add.u32 %r20, %r2, %r3; {STORE}
    """
    told = driver.run(body, [], np.zeros(64, "u4"), block=64)
    assert (told == THREADS * (THREADS + 1) // 2 + np.uint32(0xFFFFFFFF)).all()


def test_an_indexed_branch_goes_where_its_table_says(driver: Driver) -> None:
    body = f"""
    rem.u32 %r1, %r0, 3; targets: .branchtargets a, b, c;
    brx.idx %r1, targets;
    a: mov.u32 %r20, 10; bra end; b: mov.u32 %r20, 20; bra end; c: mov.u32 %r20, 30; end: {STORE}
    """
    assert driver.run(body, [], np.zeros(32, "u4")).tolist() == [[10, 20, 30][each % 3] for each in range(32)]


def test_blocks_of_text_have_names_of_their_own(driver: Driver) -> None:
    body = f"""
    mov.u32 %r20, 1;
    {{ .reg .u32 x; mov.u32 x, 5; bra on; add.u32 x, x, 100; on: add.u32 %r20, %r20, x; }}
    {{ .reg .u32 x; mov.u32 x, 7; bra on; add.u32 x, x, 100; on: add.u32 %r20, %r20, x; }}
    {STORE}
    """
    assert driver.run(body, [], np.zeros(1, "u4"), block=1).tolist() == [13]


def test_directives_may_stand_together(driver: Driver) -> None:
    """As in assembler that people write into their kernels."""
    body = f"""
    {{ .reg.u32 x, y; .local.align 4 .b32 kept[2]; .shared.u32 common;
       mov.u32 x, 5; st.local.u32 [kept+4], x; ld.local.u32 y, [kept+4]; st.shared.u32 [common], y;
       ld.shared.u32 %r20, [common]; }}
    {STORE}
    """
    assert driver.run(body, [], np.zeros(1, "u4"), block=1).tolist() == [5]


def test_a_comparison_of_halves_may_be_a_half(driver: Driver) -> None:
    body = f"""
    {{ .reg.b16 a, b, c; mov.b16 a, 0x4000; mov.b16 b, 0x4200;
       set.lt.f16.f16 c, a, b; cvt.u32.u16 %r20, c; set.eq.f16.f16 c, a, b; cvt.u32.u16 %r1, c;
       shl.b32 %r1, %r1, 16; or.b32 %r20, %r20, %r1; }}
    {STORE}
    """
    (told,) = driver.run(body, [], np.zeros(1, "u4"), block=1)
    assert np.array([told & 0xFFFF, told >> 16], "u2").view("f2").tolist() == [1.0, 0.0]


def test_directives_that_only_begin_alike_are_others(driver: Driver) -> None:
    for wrong in (".register.u32 x;", ".reg. x;", ".reg.v3.u32 x;", ".locally .u32 x;"):
        with pytest.raises(DriverError):
            driver.run(wrong + STORE, [], np.zeros(1, "u4"), block=1)


FUNCTIONS = """
.func (.param .b32 out) twice(.param .b32 in) {
    .reg .b32 %r<3>; ld.param.b32 %r1, [in]; add.u32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret;
}
.func (.param .b32 out) factorial(.param .b32 in) {
    .reg .b32 %r<5>; .reg .pred %p<2>;
    ld.param.b32 %r1, [in]; setp.le.u32 %p1, %r1, 1; @%p1 bra one; sub.u32 %r2, %r1, 1;
    { .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call (r), factorial, (a); ld.param.b32 %r3, [r]; }
    mul.lo.u32 %r4, %r1, %r3; st.param.b32 [out], %r4; ret;
    one: mov.u32 %r4, 1; st.param.b32 [out], %r4; ret;
}
"""


def test_functions_call_each_other_and_themselves(driver: Driver) -> None:
    body = f"""
    rem.u32 %r1, %r0, 8;
    {{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; call.uni (r), factorial, (a); ld.param.b32 %r2, [r]; }}
    setp.lt.u32 %p1, %r1, 4; @!%p1 bra skip;
    {{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call (r), twice, (a); ld.param.b32 %r2, [r]; }}
    skip: mov.u32 %r20, %r2; {STORE}
    """
    factorial = np.array([1, 1, 2, 6, 24, 120, 720, 5040], "u4")
    expected = [int(factorial[each % 8]) * (2 if each % 8 < 4 else 1) for each in range(64)]
    assert driver.run(body, [], np.zeros(64, "u4"), block=64, before=FUNCTIONS).tolist() == expected


def test_a_function_is_called_by_its_address(driver: Driver) -> None:
    body = f"""
    mov.u64 %rd10, twice; {{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r0;
    proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (r), %rd10, (a), proto; ld.param.b32 %r20, [r]; }} {STORE}
    """
    assert (driver.run(body, [], np.zeros(32, "u4"), before=FUNCTIONS) == 2 * np.arange(32)).all()


def test_threads_of_a_block_share_memory_and_wait_for_each_other(driver: Driver) -> None:
    """Every thread reads what the last one wrote; without a wait in between it would read zeros."""
    body = f"""
    .shared .align 4 .b8 cells[1024]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, cells; add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r0; bar.sync 0; xor.b32 %r5, %r2, 1020; add.u32 %r6, %r3, %r5; ld.shared.u32 %r20, [%r6];
    cvta.shared.u64 %rd10, %rd9; {STORE}
    """
    told = driver.run(body, [], np.zeros(512, "u4"), block=256, grid=2)
    assert (told == np.concatenate([np.arange(256)[::-1], np.arange(256, 512)[::-1]])).all()


def test_shared_memory_whose_size_the_launch_says(driver: Driver) -> None:
    text = f"""{HEADER} .extern .shared .align 16 .b8 cells[];
    .visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>;
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 8; mov.u64 %rd2, cells; cvta.shared.u64 %rd3, %rd2; add.u64 %rd4, %rd3, %rd1;
    st.u64 [%rd4], %rd1; bar.sync 0; mov.u32 %r2, %dynamic_smem_size; cvt.u64.u32 %rd5, %r2; sub.u64 %rd6, %rd5, 8; sub.u64 %rd6, %rd6, %rd1;
    add.u64 %rd6, %rd6, %rd3; ld.u64 %rd7, [%rd6]; ld.param.u64 %rd8, [out]; add.u64 %rd8, %rd8, %rd1; st.global.u64 [%rd8], %rd7; ret; }}"""
    out = driver.upload(np.zeros(64, "u8"))
    assert (
        driver.launch(driver.function(driver.load(text), "k"), (1,), (64,), [ctypes.c_uint64(out)], shared=512)
        == SUCCESS
    )
    assert (driver.download(out, np.zeros(64, "u8")) == 8 * np.arange(64)[::-1]).all()


def test_each_thread_has_memory_of_its_own(driver: Driver) -> None:
    body = f"""
    .local .align 8 .b8 own[64]; mov.u64 %rd10, own; cvta.local.u64 %rd11, %rd10; mov.u32 %r1, 0;
    fill: mul.wide.u32 %rd12, %r1, 4; add.u64 %rd13, %rd11, %rd12; mul.lo.u32 %r2, %r1, %r0; st.u32 [%rd13], %r2;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 16; @%p1 bra fill;
    ld.local.u32 %r20, [own+12]; {STORE}
    """
    assert (driver.run(body, [], np.zeros(64, "u4"), block=64) == 3 * THREADS).all()


@pytest.mark.parametrize("alignment", [1, 16, 64, 256, 4096])
def test_memory_of_a_thread_lies_where_its_alignment_says(driver: Driver, alignment: int) -> None:
    """In the kernel and in a function that it calls, for all threads, behind variables of odd sizes."""
    before = f"""
    .func (.param .b32 low) inner() {{ .reg .b32 %r<3>; .reg .b64 %rd<4>;
    .local .b8 odd[3]; .local .align {alignment} .b8 own[5]; mov.u64 %rd1, own; cvta.local.u64 %rd2, %rd1;
    and.b64 %rd3, %rd2, {alignment - 1}; cvt.u32.u64 %r1, %rd3; st.param.b32 [low], %r1; ret; }}
    """
    body = f"""
    .local .b8 odd[7]; .local .align {alignment} .b8 own[1]; mov.u64 %rd10, own; cvta.local.u64 %rd11, %rd10;
    and.b64 %rd12, %rd11, {alignment - 1}; cvt.u32.u64 %r20, %rd12;
    {{ .param .b32 told; call (told), inner; ld.param.b32 %r21, [told]; }} add.u32 %r20, %r20, %r21; {STORE}
    """
    assert (driver.run(body, [], np.ones(64, "u4"), block=64, before=before) == 0).all()


SIZED = f"""{HEADER} .const .align 8 .b8 table[80]; .const .u32 one = 1;
.visible .entry k() {{ .shared .align 4 .b8 cells[400]; .reg .b32 %r<2>; .reg .b64 %rd<3>;
mov.u64 %rd1, table; mov.u64 %rd2, cells; ld.const.u32 %r1, [one]; ret; }}"""


def test_a_kernel_tells_its_shared_and_constant_memory_however_it_was_loaded(driver: Driver) -> None:
    function, value = driver.function(driver.load(SIZED), "k"), ctypes.c_int()
    library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call(
        "cuLibraryLoadData", ctypes.byref(library), ctypes.c_char_p(SIZED.encode()), None, None, 0, None, None, 0
    )
    driver.call("cuLibraryGetKernel", ctypes.byref(kernel), library, b"k")
    for attribute, nbytes in ((1, 400), (2, 84)):
        driver.call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
        assert value.value == nbytes
        driver.call("cuKernelGetAttribute", ctypes.byref(value), attribute, kernel, 0)
        assert value.value == nbytes
    driver.call("cuLibraryUnload", library)


def test_variables_of_a_module_have_first_values_and_addresses(driver: Driver) -> None:
    before = """
    .global .align 4 .b32 numbers[4] = {10, 20, 30}; .const .align 8 .b64 where[2] = {numbers, generic(numbers)+4};
    .global .align 1 .b8 bytes[3] = {1, 2, 255}; .global .align 4 .f32 half = 0f3F000000;
    """
    body = f"""
    ld.const.u64 %rd10, [where+8]; ld.global.u32 %r1, [%rd10]; ld.global.u32 %r2, [numbers+8]; ld.global.s8 %r3, [bytes+2];
    ld.global.f32 %f1, [half]; cvt.rpi.u32.f32 %r4, %f1; add.u32 %r20, %r1, %r2; add.u32 %r20, %r20, %r3; add.u32 %r20, %r20, %r4; {STORE}
    """
    assert driver.run(body, [], np.zeros(1, "u4"), block=1, before=before).tolist() == [20 + 30 - 1 + 1]


@pytest.mark.parametrize(
    ("instruction", "first", "expected"),
    [
        ("atom.global.add.u32", 5, 5 + sum(range(64))), ("atom.global.min.s32", 9, 0), ("atom.global.max.u32", 9, 63),
        ("atom.global.or.b32", 0, 63), ("atom.global.xor.b32", 0, 0), ("atom.global.inc.u32", 0, None), ("atom.global.exch.b32", 0, None),
    ],
)  # fmt: skip
def test_atomics_lose_nothing(driver: Driver, instruction: str, first: int, expected: int | None) -> None:
    operand = "1000" if "inc" in instruction else "%r0"
    told = driver.run(f"{instruction} %r20, [%rd0], {operand};", [], np.array([first], "u4"), block=64)
    assert int(told[0]) == ({"inc": 64}.get(instruction.split(".")[2], 63) if expected is None else expected)


def test_red_and_cas_and_floats(driver: Driver) -> None:
    """Half of the threads take a lock by turns, and add under it; all of them add floats."""
    body = """
    red.global.add.f32 [%rd0+8], 0f3F000000; and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra end;
    take: atom.global.cas.b32 %r2, [%rd0], 0, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra take;
    ld.global.u32 %r3, [%rd0+4]; add.u32 %r3, %r3, 1; st.global.u32 [%rd0+4], %r3; membar.gl; atom.global.exch.b32 %r4, [%rd0], 0; end:
    """
    told = driver.run(body, [], np.zeros(3, "u4"), block=128)
    assert (int(told[0]), int(told[1]), float(told.view("f4")[2])) == (0, 64, 64.0)


SHUFFLES: dict[str, Callable[[int], int]] = {
    "up": lambda lane: lane - 3 if lane >= 3 else lane,
    "down": lambda lane: lane + 3 if lane + 3 < 32 else lane,
    "bfly": lambda lane: lane ^ 3,
    "idx": lambda lane: 3,
}


@pytest.mark.parametrize("kind", list(SHUFFLES))
def test_shuffles_hand_values_from_lane_to_lane(driver: Driver, kind: str) -> None:
    clamp = 0 if kind == "up" else 31
    body = (
        f"shfl.sync.{kind}.b32 %r1|%p1, %r0, 3, {clamp}, -1; selp.u32 %r2, 100, 0, %p1; add.u32 %r20, %r1, %r2; {STORE}"
    )
    told = driver.run(body, [], np.zeros(32, "u4"))
    inside = [SHUFFLES[kind](lane) != lane or kind in ("bfly", "idx") for lane in range(32)]
    assert told.tolist() == [SHUFFLES[kind](lane) + (100 if inside[lane] else 0) for lane in range(32)]


def test_shuffles_stay_in_their_part_of_a_warp(driver: Driver) -> None:
    body = f"shfl.sync.down.b32 %r20, %r0, 1, {(32 - 8) << 8 | 31}, -1; {STORE}"
    told = driver.run(body, [], np.zeros(32, "u4"))
    assert told.tolist() == [lane + 1 if lane % 8 < 7 else lane for lane in range(32)]


def test_votes_matches_and_reductions(driver: Driver) -> None:
    body = """
    setp.lt.u32 %p1, %r0, 5; vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1; vote.sync.ballot.b32 %r1, !%p1, -1;
    and.b32 %r2, %r0, 3; match.any.sync.b32 %r3, %r2, -1; redux.sync.add.u32 %r4, %r0, -1; redux.sync.min.s32 %r5, %r0, -1; activemask.b32 %r6;
    selp.u32 %r7, 1, 0, %p2; selp.u32 %r8, 2, 0, %p3; add.u32 %r7, %r7, %r8;
    setp.eq.u32 %p4, %r0, 1; @!%p4 bra end; st.global.v4.u32 [%rd0], {%r1, %r3, %r4, %r5}; st.global.v2.u32 [%rd0+16], {%r6, %r7}; end:
    """
    told = driver.run(body, [], np.zeros(6, "u4"))
    assert [hex(each) for each in told] == ["0xffffffe0", "0x22222222", "0x1f0", "0x0", "0xffffffff", "0x2"]


def test_grids_and_blocks_have_three_sides(driver: Driver) -> None:
    text = f"""{HEADER} .visible .entry k(.param .u64 out) {{ .reg .b32 %r<20>; .reg .b64 %rd<4>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.z;
    mad.lo.u32 %r7, %r6, 3, %r5; mad.lo.u32 %r7, %r7, 2, %r4; mad.lo.u32 %r8, %r3, 4, %r2; mad.lo.u32 %r8, %r8, 8, %r1;
    mov.u32 %r9, %nctaid.y; mov.u32 %r10, %ntid.z; mad.lo.u32 %r9, %r9, 10, %r10; mad.lo.u32 %r11, %r7, 64, %r8;
    ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r11, 4, %rd1; st.global.u32 [%rd2], %r9; ret; }}"""
    out = driver.upload(np.zeros(64 * 12, "u4"))
    assert (
        driver.launch(driver.function(driver.load(text), "k"), (2, 3, 2), (8, 4, 2), [ctypes.c_uint64(out)]) == SUCCESS
    )
    assert (driver.download(out, np.zeros(64 * 12, "u4")) == 32).all()


def test_arguments_by_value_of_any_size(driver: Driver) -> None:
    text = f"""{HEADER} .visible .entry k(.param .u8 a, .param .align 8 .b8 b[24], .param .f64 c, .param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f64 %fd<4>;
    ld.param.u8 %r1, [a]; ld.param.u64 %rd1, [b+16]; ld.param.f64 %fd1, [c]; cvt.rn.f64.u32 %fd2, %r1; add.f64 %fd1, %fd1, %fd2;
    cvt.rn.f64.u64 %fd3, %rd1; add.f64 %fd1, %fd1, %fd3; ld.param.u64 %rd2, [out]; st.global.f64 [%rd2], %fd1; ret; }}"""
    out = driver.upload(np.zeros(1, "f8"))
    held = [ctypes.c_uint8(200), (ctypes.c_uint64 * 3)(1, 2, 3), ctypes.c_double(0.5), ctypes.c_uint64(out)]
    assert driver.launch(driver.function(driver.load(text), "k"), (1,), (1,), held) == SUCCESS
    assert driver.download(out, np.zeros(1, "f8"))[0] == 203.5


def test_a_launch_may_be_prepared_step_by_step(driver: Driver) -> None:
    """As PyCUDA does: block, shared memory and arguments are set on the kernel, and a grid is launched."""
    text = """.visible .entry k(.param .u64 out, .param .u32 add, .param .f32 scale) {
        .reg .u64 %o, %at; .reg .u32 %t, %n, %a; .reg .f32 %f, %s;
        ld.param.u64 %o, [out]; ld.param.u32 %a, [add]; ld.param.f32 %s, [scale];
        mov.u32 %t, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %t, %t, %n, 0; mov.u32 %n, %tid.x; add.u32 %t, %t, %n;
        mul.wide.u32 %at, %t, 4; add.u64 %o, %o, %at;
        add.u32 %t, %t, %a; cvt.rn.f32.u32 %f, %t; mul.f32 %f, %f, %s; st.global.f32 [%o], %f; ret; }"""
    kernel = driver.function(driver.load(HEADER + text), "k")
    zeros = np.zeros(6, np.float32)
    out = driver.upload(zeros)
    address = ctypes.c_uint64(out)
    assert driver.result("cuFuncSetBlockShape", kernel, 0, 1, 1) == INVALID_VALUE
    assert driver.result("cuParamSetSize", kernel, 5000) == INVALID_VALUE
    assert driver.result("cuParamSetv", kernel, 4090, ctypes.byref(address), 8) == INVALID_VALUE
    driver.call("cuFuncSetBlockShape", kernel, 2, 1, 1)
    driver.call("cuFuncSetSharedSize", kernel, 16)
    driver.call("cuParamSetSize", kernel, 16)
    driver.call("cuParamSetv", kernel, 0, ctypes.byref(address), 8)
    driver.call("cuParamSeti", kernel, 8, 10)
    driver.call("cuParamSetf", kernel, 12, ctypes.c_float(0.5))
    driver.call("cuLaunchGridAsync", kernel, 2, 1, None)
    assert driver.download(out, zeros).tolist() == [5, 5.5, 6, 6.5, 0, 0]
    driver.call("cuParamSeti", kernel, 8, 100)
    driver.call("cuLaunch", kernel)
    driver.call("cuLaunchGrid", kernel, 1, 1)
    assert driver.download(out, zeros).tolist() == [50, 50.5, 6, 6.5, 0, 0]
    assert driver.result("cuLaunchGrid", kernel, 1, 0) == INVALID_VALUE


def test_printf_prints(driver: Driver, capfd: pytest.CaptureFixture[str]) -> None:
    before = """.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
    .global .align 1 .b8 format[] = {37, 100, 32, 37, 46, 49, 102, 32, 37, 115, 10, 0}; .global .align 1 .b8 word[4] = {97, 98, 99, 0};"""
    before = before.replace("format[]", "format[12]")  # "%d %.1f %s\n"
    body = """
    .local .align 8 .b8 values[24]; mov.u64 %rd10, values; cvta.local.u64 %rd11, %rd10; mov.u32 %r1, -7; st.local.u32 [values], %r1;
    mov.f64 %fd1, 0d3FF8000000000000; st.local.f64 [values+8], %fd1; mov.u64 %rd12, word; st.local.u64 [values+16], %rd12; mov.u64 %rd13, format;
    { .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd13; st.param.b64 [b], %rd11; call (r), vprintf, (a, b); }
    """
    driver.run(body, [], np.zeros(1, "u4"), block=1, before=before)
    assert capfd.readouterr().out == "-7 1.5 abc\n"


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("mov.u64 %rd10, 4096; ld.global.u32 %r1, [%rd10];", ILLEGAL_ADDRESS, "ld.global.u32: address 0x1000 belongs to no memory"),
        ("ld.global.u32 %r1, [%rd0+4096];", ILLEGAL_ADDRESS, "belongs to no memory of the program"),
        ("ld.shared.u32 %r1, [%r0+64000];", ILLEGAL_ADDRESS, "address 0xfa00"),
        ("ld.global.u32 %r1, [%rd0+2];", MISALIGNED_ADDRESS, "is no multiple of 4"),
        ("trap;", LAUNCH_FAILED, "the kernel ended itself"),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 bar.sync 0; vote.sync.all.pred %p2, %p1, -1;", LAUNCH_FAILED, "for ever"),  # one lane waits for all threads, they for it
    ],
)  # fmt: skip
def test_a_kernel_that_fails_says_where_and_ends_its_context(
    driver: Driver, body: str, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        with pytest.raises(DriverError) as caught:
            driver.run(body, [], np.zeros(1, "u4"), block=32)
        assert caught.value.code == code
        assert said in capfd.readouterr().err
        assert driver.result("cuCtxSynchronize") == code, "as with CUDA, nothing works any more"
    finally:
        driver.renew()


def test_an_assertion_tells_what_failed(driver: Driver, capfd: pytest.CaptureFixture[str]) -> None:
    before = """.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
    .global .align 1 .b8 text[4] = {120, 62, 48, 0}; .global .align 1 .b8 file[4] = {102, 46, 99, 0};"""
    body = """mov.u64 %rd10, text; mov.u64 %rd11, file; mov.u32 %r1, 12;
    { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e; st.param.b64 [a], %rd10; st.param.b64 [b], %rd11;
    st.param.b32 [c], %r1; call __assertfail, (a, b, c, d, e); }"""
    try:
        with pytest.raises(DriverError) as caught:
            driver.run(body, [], np.zeros(1, "u4"), block=1, before=before)
        assert caught.value.code == ASSERT
        assert "f.c:12: assertion x>0 failed" in capfd.readouterr().err
    finally:
        driver.renew()


@pytest.mark.parametrize(
    "instruction",
    [
        "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd0, {%r1, %r2}];", "add.rn.f32.weird %f1, %f2, %f3;", "add.rn.f64.ftz %fd1, %fd2, %fd3;",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2}, [%rd0];", "cvt.rna.tf32.f32 %r1, %f1;", "vadd.s32.s32.s32 %r1, %r2, %r3;",
        "shfl.up.b32 %r1, %r2, 1, 0;", "sqrt.approx.f64 %fd1, %fd2;", "mul.f32.lo %f1, %f2, %f3;", "min.f32 %f1, %f2, %f3, %f4;", "no_such_thing %r1;",
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_when_reached_and_never_computed_wrongly(
    driver: Driver, instruction: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DriverError) as caught:
        driver.run(instruction, [], np.zeros(1, "u4"), block=1)
    assert caught.value.code == NOT_SUPPORTED
    assert f"{instruction.split(maxsplit=1)[0]}: this instruction is not supported" in capfd.readouterr().err
    passed = driver.run(f"bra over; {instruction} over: mov.u32 %r20, 3; {STORE}", [], np.zeros(1, "u4"), block=1)
    assert passed.tolist() == [3], "where it is not reached, it does no harm"

"""Conversions and comparisons: every pair of types, against exact fractions and Python's own comparisons."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from tests.native.cuda.driver import Driver
from tests.native.cuda.exact import Rounding, rounded
from tests.native.cuda.test_floats import FORMATS, WORDS, from_words, samples, to_words
from tests.native.cuda.test_integers import REGISTERS as WHOLE_REGISTERS
from tests.native.cuda.test_integers import bits, clamp, values, wrap

WHOLE = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "bf16", "f32", "f64")
COUNT = 256


def register(kind: str) -> str:
    if kind in ("f32", "f64"):
        return {"f32": "%f", "f64": "%fd"}[kind]
    return WHOLE_REGISTERS[16 if kind in FLOATS else max(16, bits(kind))]


def size(kind: str) -> int:
    return int(WORDS[kind][1]) if kind in FLOATS else bits(kind) // 8


def convert(driver: Driver, instruction: str, to: str, source: str, words: np.ndarray) -> np.ndarray:
    """Convert numbers, given and returned as their bits."""
    body = f"""
    mad.wide.u32 %rd40, %r0, {size(source)}, %rd1; ld.global.b{8 * size(source)} {register(source)}10, [%rd40];
    {instruction}.{to}.{source} {register(to)}20, {register(source)}10;
    mad.wide.u32 %rd40, %r0, {size(to)}, %rd0; st.global.b{8 * size(to)} [%rd40], {register(to)}20;
    """
    return driver.run(body, [words], np.zeros(COUNT, f"u{size(to)}"), block=64, grid=COUNT // 64)


def floats(kind: str) -> list[float]:
    some = samples(FORMATS[kind], np.random.default_rng(2), COUNT - 64)
    near = [(index - 32) / 2 for index in range(64)]
    return near + some


@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize("source", WHOLE)
@pytest.mark.parametrize("to", WHOLE)
def test_whole_to_whole(driver: Driver, to: str, source: str, saturates: bool) -> None:
    given = values(source, np.random.default_rng(1), COUNT)
    words = np.array([each & (1 << bits(source)) - 1 for each in given], f"u{size(source)}")
    told = convert(driver, "cvt.sat" if saturates else "cvt", to, source, words)
    expected = [(clamp(each, to) if saturates else wrap(each, to)) & (1 << bits(to)) - 1 for each in given]
    assert [int(each) for each in told] == expected


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", WHOLE)
@pytest.mark.parametrize("to", FLOATS)
def test_whole_to_float(driver: Driver, to: str, source: str, rounding: Rounding) -> None:
    given = values(source, np.random.default_rng(1), COUNT)
    words = np.array([each & (1 << bits(source)) - 1 for each in given], f"u{size(source)}")
    told = from_words(convert(driver, f"cvt.{rounding}", to, source, words), to)
    assert told == [rounded(Fraction(each), FORMATS[to], rounding) for each in given]


WHOLE_ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


@pytest.mark.parametrize("rounding", list(WHOLE_ROUNDINGS))
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", WHOLE)
def test_float_to_whole_keeps_to_its_range(driver: Driver, to: str, source: str, rounding: str) -> None:
    given = [*floats(source)[:-3], math.inf, -math.inf, math.nan]
    told = convert(driver, f"cvt.{rounding}", to, source, to_words(given, source))
    for number, got in zip(given, told, strict=True):
        ends = {math.inf: clamp(2**70, to), -math.inf: clamp(-(2**70), to)}
        want = (
            0
            if math.isnan(number)
            else ends[number]
            if math.isinf(number)
            else clamp(WHOLE_ROUNDINGS[rounding](Fraction(number)), to)
        )
        assert int(got) == want & (1 << bits(to)) - 1, number


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("to", "source"), [("f32", "f64"), ("f16", "f32"), ("f16", "f64"), ("bf16", "f32")])
def test_float_to_smaller_float(driver: Driver, to: str, source: str, rounding: Rounding) -> None:
    given = floats(source)
    told = from_words(convert(driver, f"cvt.{rounding}", to, source, to_words(given, source)), to)
    assert told == [rounded(Fraction(each), FORMATS[to], rounding, zero_sign=each) for each in given]


@pytest.mark.parametrize(("to", "source"), [("f64", "f32"), ("f32", "f16"), ("f64", "f16"), ("f32", "bf16")])
def test_float_to_larger_float_changes_nothing(driver: Driver, to: str, source: str) -> None:
    given = floats(source)
    assert from_words(convert(driver, "cvt", to, source, to_words(given, source)), to) == given


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_floats_are_rounded_to_whole_ones(driver: Driver, kind: str) -> None:
    given = [each for each in floats(kind) if abs(each) < 2**60]
    given += [0.5] * (COUNT - len(given))
    told = from_words(convert(driver, "cvt.rni", kind, kind, to_words(given, kind)), kind)
    assert told == [float(round(each)) for each in given]


def test_two_floats_become_two_halves(driver: Driver) -> None:
    body = """
    mov.f32 %f1, 0f3FC00000; mov.f32 %f2, 0fC0000000; cvt.rn.f16x2.f32 %r1, %f1, %f2; mov.b32 {%h1, %h2}, %r1;
    st.global.b16 [%rd0], %h1; st.global.b16 [%rd0+2], %h2;
    """
    assert driver.run(body, [], np.zeros(2, "f2"), block=1).tolist() == [
        -2.0,
        1.5,
    ]  # the first operand is the upper half


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a < b or a > b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def compare(driver: Driver, comparison: str, kind: str, a: np.ndarray, b: np.ndarray) -> list[int]:
    name, width = register(kind), size(kind)
    body = f"""
    mad.wide.u32 %rd40, %r0, {width}, %rd1; ld.global.b{8 * width} {name}10, [%rd40];
    mad.wide.u32 %rd40, %r0, {width}, %rd2; ld.global.b{8 * width} {name}11, [%rd40];
    setp.{comparison}.{kind} %p1|%p2, {name}10, {name}11;
    selp.u32 %r20, 1, 0, %p1; @%p2 add.u32 %r20, %r20, 2; mad.wide.u32 %rd40, %r0, 4, %rd0; st.global.u32 [%rd40], %r20;
    """
    return [int(each) for each in driver.run(body, [a, b], np.zeros(len(a), "u4"), block=len(a))]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("name", list(COMPARISONS))
def test_whole_numbers_compare(driver: Driver, name: str, kind: str) -> None:
    rng = np.random.default_rng(4)
    a, b = values(kind, rng, 64), values(kind, rng, 64)
    b[::4] = a[::4]
    words = [np.array([each & (1 << bits(kind)) - 1 for each in column], f"u{size(kind)}") for column in (a, b)]
    told = compare(driver, name, kind, *words)
    assert told == [1 if COMPARISONS[name](x, y) else 2 for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", [*COMPARISONS, *(f"{name}u" for name in COMPARISONS), "num", "nan"])
def test_floats_compare_with_nan(driver: Driver, name: str, kind: str) -> None:
    some = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan]
    pairs = [(a, b) for a in some for b in some]
    a, b = (to_words([pair[i] for pair in pairs], kind) for i in (0, 1))
    for (x, y), got in zip(pairs, compare(driver, name, kind, a, b), strict=True):
        unordered = math.isnan(x) or math.isnan(y)
        if name in ("num", "nan"):
            want = unordered == (name == "nan")
        else:
            want = (unordered and name.endswith("u")) or (not unordered and COMPARISONS[name.removesuffix("u")](x, y))
        assert got == (1 if want else 2), (x, y)

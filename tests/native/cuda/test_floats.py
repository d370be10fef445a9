"""Floats: arithmetic rounded once by every rounding, against exact fractions; functions against the host's own."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.native.cuda.driver import Driver
from tests.native.cuda.exact import BF16, F16, F32, F64, Format, Rounding, rounded

REGISTERS = {"f32": "%f", "f64": "%fd", "f16": "%h", "bf16": "%h"}
FORMATS = {"f32": F32, "f64": F64, "f16": F16, "bf16": BF16}
WORDS = {"f32": "u4", "f64": "u8", "f16": "u2", "bf16": "u2"}
ROUNDINGS: tuple[Rounding, ...] = ("rn", "rz", "rm", "rp")

EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
}
OPERANDS = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1}


def to_words(values: list[float], kind: str) -> NDArray[Any]:
    """Return numbers of a format as their bits."""
    if kind == "bf16":
        return (np.array(values, "f4").view("u4") >> 16).astype("u2")
    return np.array(values, {"f32": "f4", "f64": "f8", "f16": "f2"}[kind]).view(WORDS[kind])


def from_words(words: NDArray[Any], kind: str) -> list[float]:
    if kind == "bf16":
        return [float(each) for each in (words.astype("u4") << 16).view("f4")]
    return [float(each) for each in words.view({"f32": "f4", "f64": "f8", "f16": "f2"}[kind])]


def samples(form: Format, rng: np.random.Generator, count: int) -> list[float]:
    """Numbers of a format over a range in which results are normal, subnormal, tied, and too large."""
    spread = [-1, 0, 1, form.least_exponent + 2, form.most_exponent - 1, form.least_exponent // 2]
    found = []
    for _ in range(count):
        exponent = int(rng.choice(spread)) + int(rng.integers(-3, 4))
        few = int(rng.integers(1, 4)) if rng.random() < 0.5 else form.digits
        fraction = Fraction(int(rng.integers(1, 2 ** min(few, 52))), 2 ** min(few, 52)) + 1
        value = rounded(fraction * Fraction(2) ** exponent * (1 if rng.random() < 0.5 else -1), form)
        found.append(value if value and math.isfinite(value) else 1.0)
    return found


def compute(driver: Driver, instruction: str, kind: str, columns: list[list[float]]) -> list[float]:
    """Run one instruction over columns of operands."""
    count, size = len(columns[0]), int(WORDS[kind][1])
    load, register = f"b{8 * size}", REGISTERS[kind]
    lines = []
    for index in range(len(columns)):
        lines.append(
            f"mad.wide.u32 %rd40, %r0, {size}, %rd{index + 1}; ld.global.{load} {register}{10 + index}, [%rd40];"
        )
    names = ", ".join(f"{register}{10 + index}" for index in range(len(columns)))
    lines.append(f"{instruction} {register}20, {names};")
    lines.append(f"mad.wide.u32 %rd40, %r0, {size}, %rd0; st.global.{load} [%rd40], {register}20;")
    inputs = [to_words(column, kind) for column in columns]
    told = driver.run("\n".join(lines), inputs, np.zeros(count, WORDS[kind]), block=64, grid=count // 64)
    return from_words(told, kind)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", list(EXACT))
def test_arithmetic_is_rounded_once(driver: Driver, name: str, kind: str, rounding: Rounding) -> None:
    rng = np.random.default_rng(7)
    columns = [samples(FORMATS[kind], rng, 512) for _ in range(OPERANDS[name])]
    told = compute(driver, f"{name}.{rounding}.{kind}", kind, columns)
    for row, got in zip(zip(*columns, strict=True), told, strict=True):
        exact = EXACT[name](*map(Fraction, row))
        assert got == rounded(exact, FORMATS[kind], rounding), (name, row)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_halves_are_rounded_once(driver: Driver, name: str, kind: str) -> None:
    rng = np.random.default_rng(8)
    columns = [samples(FORMATS[kind], rng, 512) for _ in range(OPERANDS[name])]
    told = compute(driver, f"{name}.rn.{kind}", kind, columns)
    for row, got in zip(zip(*columns, strict=True), told, strict=True):
        assert got == rounded(EXACT[name](*map(Fraction, row)), FORMATS[kind]), (name, row)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_square_roots_are_rounded_once(driver: Driver, kind: str, rounding: Rounding) -> None:
    """A root is the largest number whose square is not larger, or the one above it, decided by exact squares."""
    form = FORMATS[kind]
    values = [abs(each) for each in samples(form, np.random.default_rng(9), 256)]
    for value, got in zip(values, compute(driver, f"sqrt.{rounding}.{kind}", kind, [values]), strict=True):
        below, above = math.nextafter(got, 0.0), math.nextafter(got, math.inf)
        if kind == "f32":
            below, above = (
                float(np.nextafter(np.float32(got), np.float32(0))),
                float(np.nextafter(np.float32(got), np.float32(np.inf))),
            )
        square, exact = Fraction(got) ** 2, Fraction(value)
        if rounding in ("rz", "rm"):
            assert square <= exact < Fraction(above) ** 2
        elif rounding == "rp":
            assert Fraction(below) ** 2 < exact <= square
        else:
            assert ((Fraction(below) + Fraction(got)) / 2) ** 2 <= exact <= ((Fraction(above) + Fraction(got)) / 2) ** 2


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5]


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", ["add.rn", "mul.rn", "div.rn", "min", "max", "copysign"])
def test_zeros_infinities_and_nan(driver: Driver, name: str, kind: str) -> None:
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    columns = [[a for a, _ in pairs], [b for _, b in pairs]]
    told = compute(driver, f"{name}.{kind}", kind, columns)
    with np.errstate(all="ignore"):
        x, y = np.array(columns[0]), np.array(columns[1])
        minimum = np.where((x == y) & np.signbit(x), x, np.where(x == y, y, np.fmin(x, y)))  # -0 is less than 0
        maximum = np.where((x == y) & np.signbit(x), y, np.where(x == y, x, np.fmax(x, y)))
        expected = {"add.rn": x + y, "mul.rn": x * y, "div.rn": x / y, "min": minimum, "max": maximum,
                    "copysign": np.copysign(y, x)}[name]  # fmt: skip
    for pair, got, want in zip(pairs, told, expected, strict=True):
        assert (math.isnan(got) and math.isnan(want)) or (
            got == want and math.copysign(1, got) == math.copysign(1, want)
        ), pair


@pytest.mark.parametrize(
    ("instruction", "meaning"),
    [
        ("sin.approx.f32", math.sin), ("cos.approx.f32", math.cos), ("ex2.approx.f32", lambda a: 2.0**a),
        ("lg2.approx.f32", lambda a: math.log2(abs(a))), ("rsqrt.approx.f32", lambda a: 1 / math.sqrt(abs(a))),
        ("rcp.approx.f32", lambda a: 1 / a), ("sqrt.approx.f32", lambda a: math.sqrt(abs(a))), ("tanh.approx.f32", math.tanh),
    ],
)  # fmt: skip
def test_functions_are_exact_to_the_last_place(
    driver: Driver, instruction: str, meaning: Callable[[float], float]
) -> None:
    values = [float(np.float32(each)) for each in np.random.default_rng(3).uniform(0.01, 30, 128)]
    told = compute(driver, instruction, "f32", [values])
    assert told == pytest.approx([meaning(each) for each in values], rel=2**-23)


def test_tiny_numbers_count_as_zero_where_an_instruction_says_so(driver: Driver) -> None:
    tiny = 1e-40
    assert compute(driver, "add.rn.f32", "f32", [[tiny] * 64, [tiny] * 64])[0] == pytest.approx(2e-40, rel=1e-4)
    assert compute(driver, "add.rn.ftz.f32", "f32", [[tiny] * 64, [tiny] * 64])[0] == 0
    assert compute(driver, "mul.rn.ftz.f32", "f32", [[1e-30] * 64, [-1e-10] * 64])[0] == 0


def test_saturation_keeps_to_0_and_1_and_gives_0_for_nan(driver: Driver) -> None:
    a = [0.25, 0.75, -0.5, math.nan] * 16
    assert compute(driver, "add.rn.sat.f32", "f32", [a, a])[:4] == [0.5, 1.0, 0.0, 0.0]


def test_a_nan_is_handed_on_only_if_asked_for(driver: Driver) -> None:
    a, b = [math.nan, 1.0] * 32, [2.0, math.nan] * 32
    assert compute(driver, "max.f32", "f32", [a, b])[:2] == [2.0, 1.0]
    assert all(math.isnan(each) for each in compute(driver, "max.NaN.f32", "f32", [a, b]))


def test_two_halves_in_one_register(driver: Driver) -> None:
    a, b = np.array([1.5, -2.0] * 32, "f2"), np.array([0.25, 4.0] * 32, "f2")
    body = """
    mad.wide.u32 %rd40, %r0, 4, %rd1; ld.global.b32 %r10, [%rd40]; mad.wide.u32 %rd40, %r0, 4, %rd2; ld.global.b32 %r11, [%rd40];
    fma.rn.f16x2 %r12, %r10, %r11, %r10; mad.wide.u32 %rd40, %r0, 4, %rd0; st.global.b32 [%rd40], %r12;
    """
    assert (driver.run(body, [a, b], np.zeros(64, "f2")) == a * b + a).all()

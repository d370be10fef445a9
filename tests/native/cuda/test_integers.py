"""Whole numbers and bits: every instruction against Python's own integers."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
from tests.native.cuda.driver import Driver

REGISTERS = {16: "%h", 32: "%r", 64: "%rd"}


class Case(NamedTuple):
    """An instruction, what its operands are, and what it means for Python's integers, wrapped to the result's type."""

    instruction: str
    result: str
    operands: tuple[str, ...]
    meaning: Callable[..., int]


def bits(kind: str) -> int:
    return int(kind[1:])


def wrap(value: int, kind: str) -> int:
    value &= (1 << bits(kind)) - 1
    return value - (1 << bits(kind)) if kind[0] == "s" and value >> (bits(kind) - 1) else value


def toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def clamp(value: int, kind: str) -> int:
    least, most = (
        (-(1 << (bits(kind) - 1)), (1 << (bits(kind) - 1)) - 1) if kind[0] == "s" else (0, (1 << bits(kind)) - 1)
    )
    return max(least, min(most, value))


def by_type() -> Iterator[Case]:
    """Instructions that exist for all types."""
    for kind in ("u16", "u32", "u64", "s16", "s32", "s64"):
        two, three, size = (kind,) * 2, (kind,) * 3, bits(kind)
        yield Case(f"add.{kind}", kind, two, lambda a, b: a + b)
        yield Case(f"sub.{kind}", kind, two, lambda a, b: a - b)
        yield Case(f"mul.lo.{kind}", kind, two, lambda a, b: a * b)
        yield Case(f"mul.hi.{kind}", kind, two, lambda a, b, size=size: (a * b) >> size)
        yield Case(f"mad.lo.{kind}", kind, three, lambda a, b, c: a * b + c)
        yield Case(f"mad.hi.{kind}", kind, three, lambda a, b, c, size=size: ((a * b) >> size) + c)
        yield Case(f"min.{kind}", kind, two, min)
        yield Case(f"max.{kind}", kind, two, max)
        yield Case(f"sad.{kind}", kind, three, lambda a, b, c: c + abs(a - b))
        yield Case(f"div.{kind}", kind, two, lambda a, b: toward_zero(a, b) if b else -1)
        yield Case(f"rem.{kind}", kind, two, lambda a, b: a - b * toward_zero(a, b) if b else a)
        yield Case(f"shr.{kind}", kind, (kind, "n32"), lambda a, n, size=size: a >> min(n, size))
        if size < 64:
            wide = f"{kind[0]}{2 * size}"
            yield Case(f"mul.wide.{kind}", wide, two, lambda a, b: a * b)
            yield Case(f"mad.wide.{kind}", wide, (kind, kind, wide), lambda a, b, c: a * b + c)
        if kind[0] == "s":
            yield Case(f"neg.{kind}", kind, (kind,), lambda a: -a)
            yield Case(f"abs.{kind}", kind, (kind,), abs)
    for size in (16, 32, 64):
        kind = f"b{size}"
        yield Case(f"and.{kind}", kind, (kind, kind), lambda a, b: a & b)
        yield Case(f"or.{kind}", kind, (kind, kind), lambda a, b: a | b)
        yield Case(f"xor.{kind}", kind, (kind, kind), lambda a, b: a ^ b)
        yield Case(f"not.{kind}", kind, (kind,), lambda a: ~a)
        yield Case(f"cnot.{kind}", kind, (kind,), lambda a: int(a == 0))
        yield Case(f"shl.{kind}", kind, (kind, "n32"), lambda a, n, size=size: a << n if n < size else 0)


def funnel(low: int, high: int) -> int:
    return high << 32 | low


def reverse(a: int, size: int) -> int:
    return int(f"{a:0{size}b}"[::-1], 2)


def field(a: int, start: int, length: int, size: int, *, signed: bool) -> int:
    """Bits of a field; what is beyond the number is its sign, which is the field's own highest bit."""
    start, length = start & 255, length & 255
    if length == 0:
        return 0
    sign = a >> min(start + length - 1, size - 1) & 1 if signed else 0
    found = [a >> (start + i) & 1 if i < length and start + i < size else sign for i in range(size)]
    return sum(bit << i for i, bit in enumerate(found))


def insert(a: int, b: int, start: int, length: int, size: int) -> int:
    start, length = start & 255, length & 255
    mask = ((1 << length) - 1) << start & ((1 << size) - 1)
    return (b & ~mask) | (a << start & mask)


def find_highest(a: int) -> int:
    a = ~a if a < 0 else a
    return a.bit_length() - 1 if a else -1


def permute(a: int, b: int, control: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    chosen = [control >> 4 * i & 15 for i in range(4)]
    found = [(255 if data[c & 7] & 128 else 0) if c & 8 else data[c & 7] for c in chosen]
    return int.from_bytes(bytes(found), "little")


def dot(a: int, b: int, c: int, *, signed: bool) -> int:
    kind = np.dtype("i1" if signed else "u1")
    x, y = (np.frombuffer(each.to_bytes(4, "little"), kind).astype(int) for each in (a, b))
    return int((x * y).sum()) + c


OTHERS = [
    Case("add.sat.s32", "s32", ("s32", "s32"), lambda a, b: clamp(a + b, "s32")),
    Case("sub.sat.s32", "s32", ("s32", "s32"), lambda a, b: clamp(a - b, "s32")),
    Case("mad.hi.sat.s32", "s32", ("s32",) * 3, lambda a, b, c: clamp(((a * b) >> 32) + c, "s32")),
    Case("mul24.lo.u32", "u32", ("u32", "u32"), lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    Case("mul24.hi.u32", "u32", ("u32", "u32"), lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16),
    Case("mul24.lo.s32", "s32", ("s32", "s32"), lambda a, b: wrap(a, "s24") * wrap(b, "s24")),
    Case("mad24.lo.u32", "u32", ("u32",) * 3, lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    Case("lop3.b32", "b32", ("b32", "b32", "b32"), lambda a, b, c: (a & b) ^ c),  # table 0x6a, added below
    Case("shf.l.wrap.b32", "b32", ("b32", "b32", "n32"), lambda a, b, n: funnel(a, b) << (n & 31) >> 32),
    Case("shf.l.clamp.b32", "b32", ("b32", "b32", "n32"), lambda a, b, n: funnel(a, b) << min(n, 32) >> 32),
    Case("shf.r.wrap.b32", "b32", ("b32", "b32", "n32"), lambda a, b, n: funnel(a, b) >> (n & 31)),
    Case("shf.r.clamp.b32", "b32", ("b32", "b32", "n32"), lambda a, b, n: funnel(a, b) >> min(n, 32)),
    Case("popc.b32", "u32", ("b32",), int.bit_count),
    Case("popc.b64", "u32", ("b64",), int.bit_count),
    Case("clz.b32", "u32", ("b32",), lambda a: 32 - a.bit_length()),
    Case("clz.b64", "u32", ("b64",), lambda a: 64 - a.bit_length()),
    Case("brev.b32", "b32", ("b32",), lambda a: reverse(a, 32)),
    Case("brev.b64", "b64", ("b64",), lambda a: reverse(a, 64)),
    Case("bfind.u32", "u32", ("u32",), find_highest),
    Case("bfind.s32", "u32", ("s32",), find_highest),
    Case("bfind.u64", "u32", ("u64",), find_highest),
    Case("bfind.s64", "u32", ("s64",), find_highest),
    Case("bfind.shiftamt.u32", "u32", ("u32",), lambda a: 31 - find_highest(a) if a else -1),
    Case("bfe.u32", "u32", ("u32", "n32", "n32"), lambda a, b, c: field(a, b, c, 32, signed=False)),
    Case("bfe.s32", "s32", ("s32", "n32", "n32"), lambda a, b, c: field(a, b, c, 32, signed=True)),
    Case("bfe.u64", "u64", ("u64", "n32", "n32"), lambda a, b, c: field(a, b, c, 64, signed=False)),
    Case("bfe.s64", "s64", ("s64", "n32", "n32"), lambda a, b, c: field(a, b, c, 64, signed=True)),
    Case("bfi.b32", "b32", ("b32", "b32", "n32", "n32"), lambda a, b, c, d: insert(a, b, c, d, 32)),
    Case("bfi.b64", "b64", ("b64", "b64", "n32", "n32"), lambda a, b, c, d: insert(a, b, c, d, 64)),
    Case("bmsk.clamp.b32", "b32", ("n32", "n32"), lambda a, b: ((1 << b) - 1) << a if a < 32 else 0),
    Case("bmsk.wrap.b32", "b32", ("n32", "n32"), lambda a, b: ((1 << (b & 31)) - 1) << (a & 31)),
    Case("prmt.b32", "b32", ("b32", "b32", "b32"), permute),
    Case("dp4a.u32.u32", "u32", ("b32", "b32", "b32"), lambda a, b, c: dot(a, b, c, signed=False)),
    Case("dp4a.s32.s32", "s32", ("b32", "b32", "b32"), lambda a, b, c: dot(a, b, c, signed=True)),
]


def values(kind: str, rng: np.random.Generator, count: int) -> list[int]:
    """Ends, neighbours of zero, and random numbers of all sizes; of n32 numbers as of places."""
    if kind == "n32":
        return [int(each) for each in rng.integers(0, 80, count)]
    size = bits(kind)
    edges = [0, 1, 2, (1 << size) - 1, 1 << (size - 1), (1 << (size - 1)) - 1]
    random = [int.from_bytes(rng.bytes(8), "little") >> int(rng.integers(64 - size, 64)) for _ in range(count)]
    return [wrap(int(rng.choice(edges)) if rng.random() < 0.3 else each, kind) for each in random]


@pytest.mark.parametrize("case", [*by_type(), *OTHERS], ids=lambda case: case.instruction)
def test_means_what_it_says(driver: Driver, case: Case) -> None:
    rng = np.random.default_rng(len(case.instruction))
    count = 256
    columns = [values(kind, rng, count) for kind in case.operands]
    sizes = [32 if kind == "n32" else bits(kind) for kind in case.operands]
    inputs = [
        np.array([each & ((1 << size) - 1) for each in column], f"u{size // 8}")
        for column, size in zip(columns, sizes, strict=True)
    ]
    lines, names = [], []
    for index, size in enumerate(sizes):
        register = f"{REGISTERS[size]}{10 + index}"
        lines.append(f"mad.wide.u32 %rd40, %r0, {size // 8}, %rd{index + 1}; ld.global.u{size} {register}, [%rd40];")
        names.append(register)
    size = bits(case.result)
    result = f"{REGISTERS[size]}20"
    extra = ", 0x6a" if case.instruction == "lop3.b32" else ""
    lines.append(f"{case.instruction} {result}, {', '.join(names)}{extra};")
    lines.append(f"mad.wide.u32 %rd40, %r0, {size // 8}, %rd0; st.global.u{size} [%rd40], {result};")
    told = driver.run("\n".join(lines), inputs, np.zeros(count, f"u{size // 8}"), block=64, grid=count // 64)
    expected = [case.meaning(*row) & ((1 << size) - 1) for row in zip(*columns, strict=True)]
    wrong = [
        (row, hex(got), hex(want))
        for row, got, want in zip(zip(*columns, strict=True), map(int, told), expected, strict=True)
        if got != want
    ]
    assert not wrong, f"{case.instruction}: operands, told, expected: {wrong[:3]}"


def test_sums_of_many_words_carry(driver: Driver) -> None:
    """128 bits and then 128 bits again: add.cc, addc.cc and addc; sub.cc and subc; products with madc."""
    rng = np.random.default_rng(5)
    a, b = (np.frombuffer(rng.bytes(16 * 32), "u8").reshape(32, 2).copy() for _ in range(2))
    a[:8] = np.uint64(2**64 - 1)
    body = """
    mul.wide.u32 %rd40, %r0, 16; add.u64 %rd41, %rd40, %rd1; add.u64 %rd42, %rd40, %rd2; add.u64 %rd43, %rd40, %rd40;
    add.u64 %rd43, %rd43, %rd0;
    ld.global.v2.u64 {%rd10, %rd11}, [%rd41]; ld.global.v2.u64 {%rd12, %rd13}, [%rd42];
    add.cc.u64 %rd14, %rd10, %rd12; addc.u64 %rd15, %rd11, %rd13; sub.cc.u64 %rd16, %rd10, %rd12; subc.u64 %rd17, %rd11, %rd13;
    st.global.v2.u64 [%rd43], {%rd14, %rd15}; st.global.v2.u64 [%rd43+16], {%rd16, %rd17};
    """
    told = driver.run(body, [a, b], np.zeros((32, 4), "u8"))
    for row in range(32):
        x, y = (int(each[row, 0]) | int(each[row, 1]) << 64 for each in (a, b))
        total, difference = (int(told[row, i]) | int(told[row, i + 1]) << 64 for i in (0, 2))
        assert (total, difference) == ((x + y) % 2**128, (x - y) % 2**128)

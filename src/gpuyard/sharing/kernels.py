"""Kernels that take as long as an experiment says, as PTX: timed by an emulated driver, or by the GPU itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LENGTH = ".param .u64 length"
HEAD = ".version 6.3\n.target sm_70\n.address_size 64\n"

SPIN = f"""{HEAD}.visible .entry spin({LENGTH}) {{
    .reg .pred %over; .reg .u64 %end, %now, %left; .reg .u32 %nap;
    ld.param.u64 %end, [length];
    mov.u64 %now, %globaltimer;
    add.u64 %end, %end, %now;
again:
    mov.u64 %now, %globaltimer;
    setp.ge.u64 %over, %now, %end;
    @%over bra done;
    sub.u64 %left, %end, %now;
    shr.u64 %left, %left, 1;
    min.u64 %left, %left, 500000;
    cvt.u32.u64 %nap, %left;
    nanosleep.u32 %nap;
    bra again;
done:
    ret;
}}
"""
"""Waits until so many nanoseconds have passed by the GPU's timer.

It naps for half of what is left, as a nap may last up to twice what is asked for, and at most a millisecond.
"""


@dataclass(frozen=True)
class KernelCode:
    """The kernels of a process: a module, and for each kind of kernel which function it is and how long it takes."""

    ptx: str
    functions: tuple[str, ...]
    nanoseconds: tuple[int, ...]
    """What each kind is launched with."""


def timed_code(durations_s: Sequence[float]) -> KernelCode:
    """Kernels that do nothing: whoever runs them knows by their names how long that takes."""
    names = tuple(f"kernel_{kind}" for kind in range(len(durations_s)))
    ptx = HEAD + "".join(f".visible .entry {name}({LENGTH}) {{ ret; }}\n" for name in names)
    return KernelCode(ptx, names, _nanoseconds(durations_s))


def spinning_code(durations_s: Sequence[float], overhead_ns: int = 0) -> KernelCode:
    """Kernels that keep the GPU for as long as they are told, less what each takes anyway."""
    return KernelCode(SPIN, ("spin",) * len(durations_s), _nanoseconds(durations_s, overhead_ns))


def _nanoseconds(durations_s: Sequence[float], less: int = 0) -> tuple[int, ...]:
    return tuple(max(0, round(each * 1e9) - less) for each in durations_s)

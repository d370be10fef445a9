"""A program that is killed in the middle gives back its memory and its share of the GPU."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.emulation.torch.conftest import emulated

pytest.importorskip("torch", reason="torch is not installed")

HOLDS = """
import torch
held = torch.empty(int(torch.cuda.mem_get_info()[1] * 0.8), dtype=torch.uint8, device="cuda")
torch.cuda._sleep(10**12)
print("holds", flush=True)
torch.cuda.synchronize()
"""

WANTS = """
import sys, torch
sys.stdin.readline()
size = int(torch.cuda.mem_get_info()[1] * 0.7)
try:
    torch.empty(size, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print("full", flush=True)
sys.stdin.readline()
torch.empty(size, dtype=torch.uint8, device="cuda")
before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
before.record()
torch.cuda._sleep(int(0.5 * 1380e6))
after.record()
torch.cuda.synchronize()
print(before.elapsed_time(after) / 1e3, flush=True)
"""


@contextmanager
def program(text: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", text], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_what_a_killed_program_held_is_free_for_the_next_who_needs_it() -> None:
    environment = emulated()
    with program(HOLDS, environment) as holder, program(WANTS, environment) as other:
        assert line(holder) == "holds"
        go_on(other)
        assert line(other) == "full"
        holder.kill()
        holder.wait()
        go_on(other)
        assert float(line(other)) == pytest.approx(0.5, rel=0.01), "the GPU is all its own again: half takes a second"

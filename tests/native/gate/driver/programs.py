"""Programs that call the driver, in processes of their own with the gate before it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpuyard.native import find

PREAMBLE = """
import ctypes, json, os, sys, threading
from gpuyard.sharing.calls import Drain
from gpuyard.sharing.group import Group, Terms
cuda = ctypes.CDLL("libcuda.so.1")
ZERO = ctypes.c_void_p(0)

def check(code):
    assert code == 0, code

def device_context(device=0):
    context = ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    return context

def new_stream():
    stream = ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    return stream

def launch(stream=None, function=ZERO):
    return cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, ZERO, ZERO)

def allocate(nbytes):
    address = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(nbytes)), address

def count(name):
    return ctypes.c_ulong.in_dll(cuda, "still_" + name).value

def mine(gpu=0):
    return next(c for c in Group("test", watch=True).look(gpu).clients if c.pid == os.getpid())

def show(**values):
    print(json.dumps(values))

check(cuda.cuInit(0))
context = device_context()
"""


def environment(driver: Path, **gate: object) -> dict[str, str]:
    """Return the environment of a program behind the gate; GPUYARD_GATE_<NAME> for each option."""
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(driver),
        "LD_PRELOAD": str(find("libgpuyard-gate.so")),
        "GPUYARD_GATE": "test",
        **{f"GPUYARD_GATE_{name.upper()}": str(value) for name, value in gate.items()},
    }


def run(driver: Path, script: str, *, ungated: bool = False, **gate: object) -> Any:
    """Run a script after the preamble; return what it shows."""
    surroundings = environment(driver, **gate)
    if ungated:
        del surroundings["GPUYARD_GATE"]
    command = [sys.executable, "-c", PREAMBLE + script]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)

"""The solver's own words stay out of our output."""

import ctypes

import pytest

from gpuyard.policies.allocate.solver import silent_solver


def test_what_c_code_prints_is_dropped_and_what_follows_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    libc = ctypes.CDLL(None)
    with silent_solver():
        libc.puts(b"from inside the solver")
    print("the result", flush=True)
    assert capfd.readouterr().out == "the result\n"

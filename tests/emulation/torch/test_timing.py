"""Time on the real clock of a machine that is never busy: what the profile says, what overlaps, and what adds up."""

import json
from collections.abc import Callable

import pytest
from tests.emulation.torch.conftest import Finished

from gpuyard.profiles.step_store import find_step_profile

pytest.importorskip("torch", reason="torch is not installed")

Run = Callable[..., Finished]

OVERLAP = """
import json, time, torch

def in_parallel(host, device, steps=4):
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(steps):
        time.sleep(host)  # stands for the host's work
        torch.cuda._sleep(int(device * 1380e6))
    torch.cuda.synchronize()
    return (time.monotonic() - began - min(host, device)) / steps  # the first step has nothing to overlap with

def in_turn(host, device):
    torch.cuda.synchronize()
    began = time.monotonic()
    time.sleep(host)
    torch.cuda._sleep(int(device * 1380e6))
    torch.cuda.synchronize()
    return time.monotonic() - began

print(json.dumps([[in_parallel(*case), in_turn(*case)] for case in CASES]))
"""


def test_a_step_takes_the_longer_of_host_and_gpu_and_their_sum_if_it_waits(run: Run, host_time: dict[str, str]) -> None:
    cases = [(0.06, 0.06), (0.04, 0.1), (0.1, 0.04)]
    found = json.loads(run(OVERLAP.replace("CASES", str(cases)), **host_time).stdout)
    for (host, device), (in_parallel, in_turn) in zip(cases, found, strict=True):
        assert in_parallel == pytest.approx(max(host, device), rel=0.005)
        assert in_turn == pytest.approx(host + device, rel=0.005)


TRAINING = """
import json, time, torch, torchvision

with torch.device("cuda"):
    model = torchvision.models.vgg11().cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
images, labels = torch.randn(64, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (64,), device="cuda")

def step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()

def step_seconds(steps=5):
    # by the clock, on average, and by events, each
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    torch.cuda.synchronize()
    began = time.monotonic()
    step()  # so that the GPU has something to do from now on
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    wall = (time.monotonic() - began) / (steps + 1)
    return wall, [first.elapsed_time(second) / 1e3 for first, second in zip(marks, marks[1:])]

step()
print(json.dumps(step_seconds()))
"""


def test_a_step_takes_what_the_profile_says_by_the_clock_and_by_events(run: Run, host_time: dict[str, str]) -> None:
    expected = find_step_profile("V100", "vgg11").at(64).step_s
    wall, events = json.loads(run(TRAINING, **host_time).stdout.splitlines()[-1])
    assert wall == pytest.approx(expected, rel=0.001)
    assert events == pytest.approx([expected] * len(events), rel=0.001)

"""How long passes take: what the profile says where there is one, and one wait per pass where the host is too slow."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.emulation.torch.conftest import Finished

from gpuyard.profiles.step_store import find_step_profile

Run = Callable[..., Finished]

TRAINING = """
import json, sys, torch, torchvision
model = torchvision.models.MODEL(num_classes=10).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
labels = {size: torch.zeros(size, dtype=torch.int64).cuda() for size in BATCHES}
images = {size: torch.empty(size, 3, *SIDES).cuda() for size in BATCHES}
times = []
for size in BATCHES:
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    first.record()
    loss = torch.nn.functional.cross_entropy(model(images[size]), labels[size])
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    last.record(); last.synchronize()
    times.append(first.elapsed_time(last) / 1e3)
print(json.dumps(times))
"""


def train(
    forked: Run, model: str, batches: list[int], sides: tuple[int, int] = (224, 224), **settings: str
) -> list[float]:
    program = TRAINING.replace("MODEL", model).replace("BATCHES", str(batches)).replace("SIDES", str(sides))
    done = forked(program, **{"clock": "device", **settings})
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


def test_every_step_takes_what_its_profile_says_from_the_first_on(forked: Run) -> None:
    batches = [64, 64, 24, 64]
    times = train(forked, "vgg11", batches)
    expected = [find_step_profile("V100", "vgg11").at(batch).step_s for batch in batches]
    assert times == pytest.approx(expected, rel=1e-3)


def test_another_input_size_is_not_what_was_profiled(forked: Run) -> None:
    small = train(forked, "vgg11", [64, 64], sides=(64, 64))[-1]
    assert small < 0.5 * find_step_profile("V100", "vgg11").at(64).step_s


def test_a_profile_can_be_declined(forked: Run) -> None:
    times = train(forked, "vgg11", [64, 64], profile="none", granularity="op")
    expected = find_step_profile("V100", "vgg11").at(64).step_s
    assert times[-1] != pytest.approx(expected, rel=1e-3)
    assert times[-1] == pytest.approx(expected, rel=0.6)


def test_a_model_inside_another_is_recognised(forked: Run) -> None:
    program = TRAINING.replace(
        "model = torchvision.models.MODEL(num_classes=10).cuda()",
        "model = torch.nn.Sequential(torchvision.models.vgg11(), torch.nn.Identity()).cuda()",
    )
    done = forked(program.replace("BATCHES", "[32, 32]").replace("SIDES", "(224, 224)"), clock="device")
    expected = find_step_profile("V100", "vgg11").at(32).step_s
    assert json.loads(done.stdout.splitlines()[-1]) == pytest.approx([expected, expected], rel=1e-3)


def test_jitter_varies_steps_and_the_seed_repeats_them(forked: Run) -> None:
    batches = [64] * 8
    first, again = (train(forked, "vgg11", batches, jitter="0.05", seed="7") for _ in range(2))
    other = train(forked, "vgg11", batches, jitter="0.05", seed="8")
    assert first == pytest.approx(again, rel=1e-3)
    assert first != pytest.approx(other, rel=1e-3)
    mean = sum(first) / len(first)
    assert 0.005 < max(abs(time / mean - 1) for time in first) < 0.25


def test_the_first_step_may_be_slower(forked: Run) -> None:
    times = train(forked, "vgg11", [64, 64, 64], warm_up="5")
    assert times[0] == pytest.approx(5 * times[1], rel=0.01)
    assert times[1] == pytest.approx(times[2], rel=0.01)


TINY = """
import json, torch
from gpuyard.emulation.torch.state import state
gpu = state.gpu(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
data, labels = torch.randn(64, 256).cuda(), torch.zeros(64, dtype=torch.int64).cuda()
busy = []
for step in range(8):
    before = gpu.timeline.busy
    loss = torch.nn.functional.cross_entropy(model(data), labels)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    busy.append(gpu.timeline.busy - before)
print(json.dumps({
    "busy": busy, "shapes": [tuple(p.grad.shape) for p in model.parameters()], "kernels": gpu.timeline.launches,
    "peak": torch.cuda.max_memory_allocated(), "short": state.session.report.one_wait_per_pass,
}))
"""


def test_short_passes_become_one_wait_of_the_same_duration_memory_and_gradients(forked: Run) -> None:
    whole, pieces = (
        json.loads(forked(TINY, clock="virtual", granularity=how).stdout.splitlines()[-1]) for how in ("auto", "op")
    )
    assert whole["short"] == "Sequential"
    assert pieces["short"] == ""
    assert whole["kernels"] < pieces["kernels"]
    assert whole["shapes"] == pieces["shapes"]
    assert whole["busy"][-1] == pytest.approx(pieces["busy"][-1], rel=0.02)
    assert whole["peak"] == pytest.approx(pieces["peak"], rel=0.05)


def test_a_model_without_a_profile_is_named_once_with_the_error_to_expect(forked: Run) -> None:
    done = forked(TINY, clock="virtual")
    (line,) = [line for line in done.stderr.splitlines() if "no profile" in line]
    assert "Sequential on V100" in line
    assert "op-class" in line
    assert "%" in line


def test_models_can_be_pickled_whole(forked: Run, tmp_path: Path) -> None:
    forked(
        """
        import copy, torch, torchvision
        model = torchvision.models.resnet18().cuda()
        model(torch.empty(2, 3, 224, 224).cuda())
        torch.save(model, "model.pt")
        assert type(copy.deepcopy(model)) is type(model)
        loaded = torch.load("model.pt", weights_only=False)
        assert next(loaded.parameters()).is_cuda
        """,
        clock="virtual",
    )
    assert (tmp_path / "model.pt").stat().st_size > 40e6

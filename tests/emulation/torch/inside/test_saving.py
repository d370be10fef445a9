"""Checkpoints under emulation: of the size and form of real ones, and readable wherever torch is."""

# mypy: allow-untyped-calls

import copy
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

PLAIN = """
import sys, torch

assert not torch.cuda.is_available()
found = torch.load(sys.argv[1], map_location="cpu")
print({name: (tuple(tensor.shape), str(tensor.dtype), str(tensor.device)) for name, tensor in found.items()})
try:
    torch.load(sys.argv[1])
except RuntimeError as error:
    print("without map_location:", "Attempting to deserialize object on a CUDA device" in str(error))
"""


def model(device: str = "cuda:1") -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Linear(32, 10)).to(device)


def saved(obj: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    buffer.seek(0)
    return buffer


def places(tensors: dict[str, torch.Tensor]) -> set[str]:
    return {str(tensor.device) for tensor in tensors.values()}


def test_a_state_dict_comes_back_where_it_was() -> None:
    original = model()
    loaded = torch.load(saved(original.state_dict()))
    assert places(loaded) == {"cuda:1"}
    assert [(name, value.shape, value.dtype) for name, value in loaded.items()] == [
        (name, value.shape, value.dtype) for name, value in original.state_dict().items()
    ]
    twin = model("cuda:0")
    assert str(twin.load_state_dict(loaded)) == "<All keys matched successfully>"
    assert {str(parameter.device) for parameter in twin.parameters()} == {"cuda:0"}


@pytest.mark.parametrize(
    ("map_location", "expected"),
    [
        (None, "cuda:1"),
        ("cpu", "cpu"),
        (torch.device("cpu"), "cpu"),
        ("cuda", "cuda:0"),
        ("cuda:0", "cuda:0"),
        (torch.device("cuda", 0), "cuda:0"),
        ({"cuda:1": "cuda:0"}, "cuda:0"),
        ({"cuda:0": "cpu"}, "cuda:1"),
        ({"cuda:1": "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: storage.cuda(0), "cuda:0"),
        (lambda storage, location: "cuda:0" if location == "cuda:1" else None, "cuda:0"),
    ],
)
def test_map_location_in_all_its_forms(map_location: Any, expected: str) -> None:
    assert places(torch.load(saved(model().state_dict()), map_location=map_location)) == {expected}


def test_values_that_are_known_survive() -> None:
    loaded = torch.load(saved({"ids": torch.arange(5, device="cuda"), "one": torch.tensor(1.5, device="cuda:1")}))
    assert loaded["ids"].tolist() == [0, 1, 2, 3, 4]
    assert loaded["one"].item() == 1.5


def test_tensors_that_share_memory_are_saved_once_and_share_again() -> None:
    base = torch.zeros(1 << 16, device="cuda")
    buffer = saved({"whole": base, "part": base[:100], "again": base.view(256, 256)})
    assert buffer.getbuffer().nbytes < 1.1 * base.nbytes
    loaded = torch.load(buffer)
    assert loaded["whole"].data_ptr() == loaded["part"].data_ptr() == loaded["again"].data_ptr()
    tied = nn.ModuleDict({"one": nn.Linear(64, 64, bias=False), "two": nn.Linear(64, 64, bias=False)}).cuda()
    tied["two"].weight = tied["one"].weight
    assert saved(tied.state_dict()).getbuffer().nbytes < 1.2 * 64 * 64 * 4 + 2000


def test_a_file_is_as_large_as_a_real_one() -> None:
    for width in (7, 71):
        deep = nn.Sequential(*(nn.Linear(width, width) for _ in range(50)))
        real = saved(deep.state_dict()).getbuffer().nbytes
        emulated = saved(deep.cuda().state_dict()).getbuffer().nbytes
        assert emulated == pytest.approx(real, rel=0.05)


def test_a_program_without_emulation_loads_the_file(tmp_path: Path) -> None:
    torch.save(model().half().state_dict(), tmp_path / "model.pt")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUYARD_")}
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(tmp_path / "model.pt")],
        env=plain, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "'0.weight': ((32, 64), 'torch.float16', 'cpu')" in first
    assert second == "without map_location: True", "the file says that it comes from a GPU, as a real one does"


def test_a_file_of_the_host_can_be_loaded_onto_a_gpu() -> None:
    assert places(torch.load(saved(model("cpu").state_dict()), map_location="cuda:1")) == {"cuda:1"}
    assert places(torch.load(saved(model("cpu").state_dict()))) == {"cpu"}


@pytest.mark.parametrize("optimizer_class", [torch.optim.Adam, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)])
def test_an_optimizer_goes_on_where_it_stopped(optimizer_class: Callable[[Any], torch.optim.Optimizer]) -> None:
    first, second = model(), model()
    optimizer, other = optimizer_class(first.parameters()), optimizer_class(second.parameters())
    for _ in range(2):
        first(torch.randn(4, 64, device="cuda:1")).sum().backward()
        optimizer.step()
    other.load_state_dict(torch.load(saved(optimizer.state_dict()), map_location="cpu"))
    held = [
        value for entry in other.state.values() for value in entry.values() if torch.is_tensor(value) and value.dim()
    ]
    assert held
    assert {str(value.device) for value in held} == {"cuda:1"}
    second(torch.randn(4, 64, device="cuda:1")).sum().backward()
    other.step()


def test_a_checkpoint_of_everything() -> None:
    trained = model()
    optimizer = torch.optim.AdamW(trained.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(trained(torch.randn(4, 64, device="cuda:1")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    checkpoint = torch.load(
        saved(
            {
                "model": trained.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
                "scaler": scaler.state_dict(), "epoch": 3, "random": torch.cuda.get_rng_state_all(),
            }
        ),
        map_location="cuda:1",
    )  # fmt: skip
    scheduler.load_state_dict(checkpoint["scheduler"])
    scaler.load_state_dict(checkpoint["scaler"])
    assert checkpoint["epoch"] == 3
    assert scaler.get_scale() == 65536.0


def test_a_whole_model_is_pickled_copied_and_loaded() -> None:
    original = model()
    for twin in (
        torch.load(saved(original), weights_only=False),
        pickle.loads(pickle.dumps(original)),
        copy.deepcopy(original),
    ):
        assert {str(parameter.device) for parameter in twin.parameters()} == {"cuda:1"}
        assert all(isinstance(parameter, nn.Parameter) and parameter.requires_grad for parameter in twin.parameters())
        assert twin(torch.zeros(2, 64, device="cuda:1")).shape == (2, 10)


def test_saving_waits_for_the_gpu_and_loading_takes_memory() -> None:
    original = model()
    buffer = saved(original.state_dict())
    before = torch.cuda.memory_allocated(1)
    loaded = torch.load(buffer)
    size = sum(-(-value.nbytes // 512) * 512 for value in loaded.values())
    assert torch.cuda.memory_allocated(1) - before == size
    del loaded
    assert torch.cuda.memory_allocated(1) == before

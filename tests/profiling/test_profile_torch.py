"""`gpuyard profile torch`: measured where there is a GPU, predicted elsewhere, and always said which."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.core.errors import MissingExtraError
from gpuyard.profiles.step_files import parse_steps
from gpuyard.profiling.program import has_gpu, record

pytest.importorskip("torch", reason="torch is not installed")

SCRIPT = """
import sys, torch
batch = int(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
model(torch.empty(1, 3, 32, 32))
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(6):
    images, labels = torch.empty(batch, 3, 32, 32).cuda(), torch.zeros(batch).long().cuda()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def gpuyard(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuyard", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=900, check=False)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_without_a_gpu_steps_are_predicted_and_runs_with_other_batch_sizes_add_to_the_file(script: Path) -> None:
    target = script.parent / "mine.yaml"
    options = ("--gpu", "V100", "--name", "mine", "--out", target, "--format", "json")
    for batch in (16, 64, 16):
        done = gpuyard("profile", "torch", *options, script, batch, cwd=script.parent)
        assert done.returncode == 0, done.stderr
        assert "predicted for V100" in done.stderr
        (row,) = json.loads(done.stdout)
        assert (row["gpu"], row["batch"], row["precision"], row["origin"]) == ("V100", batch, "fp32", "predicted")
        assert 0 < row["forward_ms"] < row["backward_ms"] < 100
        assert row["peak_mib"] > 10
    (profile,) = parse_steps(target.read_text(encoding="utf-8"), str(target))
    assert profile.model == "mine"
    assert profile.batches == (16, 64)
    assert not any(point.measured for point in profile.points)
    assert profile.input_shape == (3, 32, 32)
    assert profile.at(64).step_s > profile.at(16).step_s


def test_a_script_that_trains_nothing_is_told_what_is_needed(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("import torch\n", encoding="utf-8")
    done = gpuyard("profile", "torch", "--gpu", "V100", "idle.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "without a training step on a GPU" in done.stderr.splitlines()[-1]


def test_a_missing_script_and_a_wrong_gpu(tmp_path: Path, script: Path) -> None:
    missing = gpuyard("profile", "torch", "--gpu", "V100", "nowhere.py", cwd=tmp_path)
    wrong = gpuyard("profile", "torch", "--gpu", "V200", script, cwd=tmp_path)
    assert (missing.returncode, wrong.returncode) == (2, 2)
    assert "'nowhere.py' is not a file" in missing.stderr
    assert "'v100'" in wrong.stderr


def test_without_torch_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"gpuyard\[torch\]"):
        has_gpu()
    with pytest.raises(MissingExtraError, match=r"gpuyard\[torch\]"):
        record(["train.py"], None)

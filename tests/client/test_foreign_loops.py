"""Leases for the trainers of Hugging Face and Lightning, with the real libraries: no step is lost or done twice."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import Any

import pytest
from tests.client.agent_stand_in import under_an_agent

from gpuyard.client import LeaseEnded, steps
from gpuyard.client.checkpoints import Checkpoints
from gpuyard.client.foreign_loop import AfterStep, join_loop

torch = pytest.importorskip("torch", reason="torch is not installed")
from gpuyard.emulation.torch.vision import watch_import  # noqa: E402 - it needs torch

WITHOUT = "import sys; sys.modules.update(dict.fromkeys(['transformers', 'lightning', 'torch']))"


@pytest.fixture(autouse=True, scope="module")
def torchvision_loads() -> None:
    """Both libraries import it where it is, and without CUDA its usual wheel does not load by itself."""
    watch_import()


@contextmanager
def others_warnings() -> Iterator[None]:
    """What these libraries warn of is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("module", ["huggingface", "lightning"])
def test_they_can_be_imported_without_the_libraries(module: str) -> None:
    words = [sys.executable, "-c", f"{WITHOUT}; import gpuyard.client.{module}"]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stderr == ""


class Rows(torch.utils.data.Dataset):  # type: ignore[misc, name-defined, unused-ignore]
    def __len__(self) -> int:
        return 24

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"x": torch.tensor([float(row)])}


def hugging_face(folder: Path, seen: list[int], total: int = 24) -> None:
    """Three epochs of eight steps each, in this process."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from gpuyard.client.huggingface import HuggingFaceLease

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x: Any) -> dict[str, Any]:
            if self.training:
                seen.append(int(x[0, 0]))
            return {"loss": (self.weight * x).mean()}

    with others_warnings():
        lease = HuggingFaceLease()
        arguments = transformers.TrainingArguments(
            str(folder / "out"), per_device_train_batch_size=3, max_steps=total, report_to=[], use_cpu=True,
            save_strategy="no", disable_tqdm=True, logging_strategy="no", seed=7, remove_unused_columns=False,
        )  # fmt: skip
        trainer = transformers.Trainer(Model(), arguments, train_dataset=Rows(), callbacks=[lease])
        trainer.train(resume_from_checkpoint=lease.checkpoint)


def lightning(folder: Path, seen: list[int], total: int = 24) -> None:
    """The same with Lightning."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    from lightning.pytorch import LightningModule, Trainer

    from gpuyard.client.lightning import LightningLease

    class Model(LightningModule):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def training_step(self, batch: Any, _number: int) -> Any:
            seen.append(self.global_step)
            return (self.weight * batch["x"]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    with others_warnings():
        lease = LightningLease()
        trainer = Trainer(
            max_steps=total, callbacks=[lease], logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, accelerator="cpu", default_root_dir=str(folder),
        )  # fmt: skip
        loader = torch.utils.data.DataLoader(Rows(), batch_size=3)
        trainer.fit(Model(), loader, ckpt_path=lease.checkpoint, weights_only=False)


@pytest.mark.parametrize("train", [hugging_face, lightning])
def test_a_job_that_is_stopped_goes_on_at_the_same_step(train: Any, tmp_path: Path) -> None:
    whole: list[int] = []
    train(tmp_path / "whole", whole)
    assert len(whole) == 24
    parts: list[int] = []
    for until in (5, 13):
        with under_an_agent(tmp_path, until=until, stop=True, total=24) as agent:
            with pytest.raises(LeaseEnded):
                train(tmp_path, parts)
            assert len(parts) == until
            assert (agent.left.progress.step, agent.left.progress.saved_step, agent.left.finished) == (
                until,
                until,
                False,
            )
    with under_an_agent(tmp_path, total=24) as agent:
        train(tmp_path, parts)
        assert (agent.left.progress.step, agent.left.finished) == (24, True)
    assert parts == whole


def test_a_loop_that_does_not_load_its_checkpoint_is_not_let_begin_again(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        path.write_text("x")

    with under_an_agent(tmp_path, until=3, stop=True):
        first = join_loop(write)
        assert first is not None
        first.begin(0, "no hint")
        assert first.after(3) is AfterStep.STOP
        first.save()
        first.leave()
    with under_an_agent(tmp_path, total=5):
        second = join_loop(write)
        assert second is not None
        with pytest.raises(SystemExit, match="begins at step 0, and the job is at 3: load it"):
            second.begin(0, "load it")


@pytest.mark.parametrize("train", [hugging_face, lightning])
def test_the_scheduler_says_when_a_job_is_done_and_when_it_saves(train: Any, tmp_path: Path) -> None:
    seen: list[int] = []
    with under_an_agent(tmp_path, total=4, every_s=1e-6) as agent:
        train(tmp_path, seen)
        assert agent.left.finished
        assert agent.left.progress.saves == 4
    assert len(seen) == 4


RANK_OF_TWO = """\
import sys
sys.modules["torchvision"] = None
import torch.distributed
from pathlib import Path
from tests.client.test_foreign_loops import hugging_face

torch.distributed.init_process_group("gloo")
seen = []
try:
    hugging_face(Path(sys.argv[1]), seen)
finally:
    print("steps", len(seen), flush=True)
"""


def test_two_processes_stop_at_one_step_and_save_together(tmp_path: Path) -> None:
    """Only the first one knows when to save, and the others hear of it at every tenth step."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    with under_an_agent(tmp_path, until=15, stop=True, total=24, every_s=1e-6), socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        told = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        words = [sys.executable, "-c", RANK_OF_TWO, str(tmp_path)]
        ranks = [
            subprocess.Popen(
                words, env=told | {"RANK": str(rank), "LOCAL_RANK": str(rank), "GPUYARD_RANK": str(rank)}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2],
            )
            for rank in (0, 1)
        ]  # fmt: skip
        ends = [each.communicate(timeout=1200) for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0], ends
    assert ["steps 15" in out for out, _ in ends] == [True, True], ends
    assert Checkpoints(tmp_path / "checkpoints").newest()[0] == 15
    saved = (tmp_path / "checkpoints").glob("step-*/state/trainer_state.json")
    assert sorted(json.loads(each.read_text())["global_step"] for each in saved) == [10, 15]


def test_synthetic_steps_are_the_first_batch_as_often_as_there_are_batches() -> None:
    batches = steps([5, 6, 7], synthetic=True)
    assert [list(batches), list(batches)] == [[5, 5, 5], [5, 5, 5]]


def test_steps_go_on_after_the_newest_checkpoint(tmp_path: Path) -> None:
    seen: list[int] = []

    def save(path: Path) -> None:
        path.write_text("x")

    with under_an_agent(tmp_path, until=3, stop=True), pytest.raises(LeaseEnded):
        seen.extend(steps(range(10), save=save))
    assert seen == [0, 1, 2]
    with under_an_agent(tmp_path, total=5) as agent:
        assert list(steps(range(10), save=save)) == [0, 1]
        assert (agent.left.progress.loaded_step, agent.left.finished) == (3, True)

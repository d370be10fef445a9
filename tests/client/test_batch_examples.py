"""The examples of batch sizes that change: under a real daemon each sample counts; without wishes nothing changes."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.shared_gpu import beside
from tests.client.test_foreign_loops import others_warnings

torch = pytest.importorskip("torch", reason="torch is not installed")
from gpuyard.emulation.torch.vision import watch_import  # noqa: E402 - it needs torch

EXAMPLES = Path(__file__).parents[2] / "examples" / "batches"


@pytest.fixture(autouse=True, scope="module")
def torchvision_loads() -> None:
    """Trainers import it where it is, and without CUDA its usual wheel does not load by itself."""
    watch_import()


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name))


def test_plain_torch_goes_through_each_epoch_once_with_several_sizes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with beside(1, monkeypatch) as wished:
        losses = example("train.py")["train"](6, "cpu")
    assert len(wished) > 2
    assert "5760 samples in 6 epochs" in capsys.readouterr().out
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("name", ["hugging_face.py", "with_lightning.py"])
def test_trainers_change_sizes_in_the_middle_of_an_epoch(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip({"hugging_face.py": "transformers"}.get(name, "lightning"))
    with others_warnings(), beside(1, monkeypatch) as wished:
        example(name)["main"](50)
    assert len(wished) > 2
    assert " 50 steps, at last of" in capsys.readouterr().out


def hugging_face_epochs(used: dict[str, Any], data: Any, batch: Any, sampler: Any, folder: Path) -> int:
    transformers = pytest.importorskip("transformers")
    arguments = transformers.TrainingArguments(
        str(folder), num_train_epochs=2, gradient_accumulation_steps=2, save_strategy="no", report_to=[],
        disable_tqdm=True, logging_strategy="no", use_cpu=True,
    )  # fmt: skip
    rows = [{"x": x, "labels": x.sum(dim=0, keepdim=True)} for x in data]
    trainer = used["SharedTrainer"](
        used["Line"](), arguments, train_dataset=rows, callbacks=[used["HuggingFaceBatch"](batch, sampler)]
    )
    trainer.batches = sampler
    trainer.train()
    return int(trainer.state.global_step)


def lightning_epochs(used: dict[str, Any], data: Any, batch: Any, sampler: Any, folder: Path) -> int:
    line: Any = used["Line"]

    class OneCycle(line):  # type: ignore[misc]
        def configure_optimizers(self) -> Any:
            optimizer = super().configure_optimizers()
            steps = int(self.trainer.estimated_stepping_batches)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    trainer = used["Trainer"](
        max_epochs=2, accumulate_grad_batches=2, callbacks=[used["LightningBatch"](batch, sampler)], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        default_root_dir=str(folder),
    )  # fmt: skip
    rows = torch.utils.data.TensorDataset(data, data.sum(dim=1, keepdim=True))
    trainer.fit(OneCycle(), torch.utils.data.DataLoader(rows, batch_sampler=sampler))
    return int(trainer.global_step)


@pytest.mark.parametrize(
    ("name", "train"), [("hugging_face.py", hugging_face_epochs), ("with_lightning.py", lightning_epochs)]
)
def test_trainers_that_go_by_epochs_do_as_many_steps_as_they_planned_whatever_the_sizes(
    name: str, train: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"hugging_face.py": "transformers"}.get(name, "lightning"))
    with others_warnings(), beside(1, monkeypatch) as wished:
        used = example(name)
        batch = used["SharedBatch"](32)
        sampler = used["SharedBatchSampler"](used["RandomSampler"](range(960)), batch, parts=2)
        assert train(used, torch.randn(960, 8), batch, sampler, tmp_path) == 60
        batch.close()
    assert len(wished) > 2


def usual(epochs: int) -> list[float]:
    """What the example does, without anything of gpuyard."""
    data_tools = torch.utils.data
    torch.manual_seed(7)
    inputs = torch.randn(960, 8)
    data = data_tools.TensorDataset(inputs, inputs.sum(dim=1, keepdim=True) + 0.1 * torch.randn(960, 1))
    model = torch.nn.Linear(8, 1)
    optimizer, samples = torch.optim.SGD(model.parameters(), lr=0.05), 0
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.5 ** (samples / 4800))
    losses = []
    loader = data_tools.DataLoader(
        data, batch_sampler=data_tools.BatchSampler(data_tools.RandomSampler(data), 16, False)
    )
    for _ in range(epochs):
        for number, (x, y) in enumerate(loader):
            samples += len(x)
            loss = torch.nn.functional.mse_loss(model(x), y)
            (loss / 2).backward()
            losses.append(loss.detach())
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
    return [float(each) for each in losses]


@pytest.mark.parametrize("daemon", [False, True], ids=["no daemon", "alone on its GPU"])
def test_where_nobody_wishes_for_anything_every_loss_is_the_same_to_the_last_bit(
    daemon: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    train: Callable[[int, str], list[float]] = example("train.py")["train"]
    if daemon:
        with beside(0, monkeypatch) as wished:
            losses = train(2, "cpu")
        assert wished == {32}
    else:
        losses = train(2, "cpu")
    assert losses == usual(2)

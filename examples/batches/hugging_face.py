"""The Trainer of Hugging Face with a batch size that gpuyard may change while it trains: python hugging_face.py."""

import sys
from tempfile import TemporaryDirectory

import torch
from torch.utils.data import DataLoader, RandomSampler
from transformers import Trainer, TrainingArguments

from gpuyard.client.batch_sampler import SharedBatchSampler
from gpuyard.client.huggingface import HuggingFaceBatch, HuggingFaceLease
from gpuyard.client.shared_batch import SharedBatch


class Line(torch.nn.Module):
    """A model as the Trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss of a batch."""
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}


class SharedTrainer(Trainer):
    """Its batches come from our sampler."""

    batches: SharedBatchSampler

    def get_train_dataloader(self) -> DataLoader:
        """A loader with the sampler; what the model does not take is left out, as the Trainer does."""
        collate = self._get_collator_with_removed_columns(self.data_collator, "training")
        loader = DataLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=collate)
        return self.accelerator.prepare(loader)


def main(steps: int) -> None:
    """Train so many steps of two micro-batches each."""
    torch.manual_seed(7)
    data = [{"x": x, "labels": x.sum(dim=0, keepdim=True), "row": row} for row, x in enumerate(torch.randn(960, 8))]
    batch = SharedBatch(32, smallest=16, largest=64)
    sampler = SharedBatchSampler(RandomSampler(data), batch, parts=2)
    lease = HuggingFaceLease()
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, gradient_accumulation_steps=2, ignore_data_skip=True, save_strategy="no",
            report_to=[], disable_tqdm=True, logging_strategy="no", use_cpu=True,
        )  # fmt: skip
        trainer = SharedTrainer(
            Line(), arguments, train_dataset=data, callbacks=[lease, HuggingFaceBatch(batch, sampler)]
        )
        trainer.batches = sampler
        trainer.train(resume_from_checkpoint=lease.checkpoint)
    batch.close()
    print(f"{sampler.epochs} epochs, {trainer.state.global_step} steps, at last of {batch.size}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 60)

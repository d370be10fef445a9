"""Lightning with a batch size that gpuyard may change while it trains: python with_lightning.py."""

import sys

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from gpuyard.client.batch_sampler import SharedBatchSampler
from gpuyard.client.lightning import LightningBatch, LightningLease
from gpuyard.client.shared_batch import SharedBatch


class Line(LightningModule):
    """A model as Lightning wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: list[torch.Tensor], _number: int) -> torch.Tensor:
        """The loss of a batch."""
        x, labels = batch
        return torch.nn.functional.mse_loss(self.layer(x), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain descent."""
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main(steps: int) -> None:
    """Train so many steps of two micro-batches each."""
    torch.manual_seed(7)
    inputs = torch.randn(960, 8)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    batch = SharedBatch(32, smallest=16, largest=64)
    sampler = SharedBatchSampler(RandomSampler(data), batch, parts=2)
    lease = LightningLease()
    trainer = Trainer(
        max_steps=steps, accumulate_grad_batches=2, callbacks=[lease, LightningBatch(batch, sampler)],
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu",
    )  # fmt: skip
    trainer.fit(Line(), DataLoader(data, batch_sampler=sampler), ckpt_path=lease.checkpoint, weights_only=False)
    batch.close()
    print(f"{sampler.epochs} epochs, {trainer.global_step} steps, at last of {batch.size}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 60)

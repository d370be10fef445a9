"""A Lightning Trainer on one GPU: metrics on the GPU, checkpoints, early stopping, learning rates, resuming."""

import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(lightning.LightningModule):
    """A small network with its metrics."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))
        self.accuracy = MulticlassAccuracy(num_classes=3)
        self.confusion = MulticlassConfusionMatrix(num_classes=3)

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        x, y = batch
        assert x.is_cuda
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        x, y = batch
        scores = self.net(x)
        self.accuracy(scores, y)
        self.confusion.update(scores, y)
        self.log("val_loss", nn.functional.cross_entropy(scores, y), on_epoch=True)
        self.log("val_accuracy", self.accuracy, on_epoch=True)

    def on_validation_epoch_end(self) -> None:
        assert self.confusion.compute().shape == (3, 3)
        self.confusion.reset()

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)}


def main(folder: str) -> None:
    lightning.seed_everything(1)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
    train, validation = DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=16)
    best = ModelCheckpoint(dirpath=folder, monitor="val_loss", save_top_k=1, save_last=True)
    options: dict[str, Any] = {
        "accelerator": "gpu", "devices": 1, "precision": "16-mixed", "gradient_clip_val": 1.0,
        "accumulate_grad_batches": 2, "logger": CSVLogger(folder), "enable_progress_bar": False,
        "enable_model_summary": False, "log_every_n_steps": 1,
    }  # fmt: skip
    trainer = lightning.Trainer(
        max_epochs=3,
        callbacks=[best, EarlyStopping("val_loss", patience=2), LearningRateMonitor()],
        **options,
    )
    model = Classifier()
    trainer.fit(model, train, validation)
    assert Path(best.best_model_path).is_file()
    print({name: round(float(value), 4) for name, value in trainer.callback_metrics.items()})
    loaded = Classifier.load_from_checkpoint(best.best_model_path)
    assert loaded.hparams["width"] == 32
    again = lightning.Trainer(max_epochs=4, **options)
    again.fit(loaded, train, validation, ckpt_path=best.last_model_path)
    assert again.current_epoch == 4
    (scores,) = again.validate(loaded, validation, verbose=False)
    assert "val_accuracy" in scores
    assert len(again.predict(loaded, DataLoader(torch.randn(8, 8), batch_size=4)) or []) == 2


def forward(self: Classifier, x: torch.Tensor) -> torch.Tensor:
    return self.net(x)


Classifier.forward = forward

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)

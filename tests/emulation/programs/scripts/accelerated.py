"""A training loop with Hugging Face accelerate: mixed precision, accumulation, gathered metrics, saved state."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    set_seed(7)
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
    assert accelerator.device.type == "cuda"
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=16)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    for epoch in range(2):
        model.train()
        for x, y in loader:
            assert x.is_cuda
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        right = 0
        for x, y in loader:
            with torch.no_grad():
                guess = model(x).argmax(-1)
            guess, y = accelerator.gather_for_metrics((guess, y))
            right += (guess == y).sum().item()
        accelerator.print(f"epoch {epoch} loss {loss.item():.3f} accuracy {right / len(data):.3f}")
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        accelerator.load_state(folder)
        accelerator.save_model(model, folder)
    bare = accelerator.unwrap_model(model)
    assert next(bare.parameters()).is_cuda
    accelerator.end_training()


if __name__ == "__main__":
    main()

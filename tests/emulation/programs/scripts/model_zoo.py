"""Trains torchvision classifiers with SGD and Adam in each of their implementations: a step of each for every model."""

import sys
import warnings

import torch
import torchvision

OPTIMIZERS = {
    f"{kind.__name__} {way}": (kind, way)
    for kind in (torch.optim.SGD, torch.optim.Adam)
    for way in ("foreach", "fused", "one by one")
}


def train(name: str, batch: int = 2) -> None:
    """Build a model on the GPU and train it with each optimizer; every parameter must get a gradient and a state."""
    with torch.device("cuda"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torchvision.models.get_model(name)
        images, labels = torch.rand(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    output = model(images)
    scores = getattr(output, "logits", output)
    assert scores.shape == (batch, 1000)
    loss = torch.nn.functional.cross_entropy(scores, labels)
    for extra in ("aux_logits1", "aux_logits2"):
        loss = loss + 0.3 * torch.nn.functional.cross_entropy(getattr(output, extra, scores), labels)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    for kind, way in OPTIMIZERS.values():
        optimizer = kind(model.parameters(), lr=0.01, foreach=way == "foreach", fused=way == "fused")
        optimizer.step()
        if kind is torch.optim.Adam:
            assert len(optimizer.state) == sum(1 for _ in model.parameters())
    print(f"{name} {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB", flush=True)


if __name__ == "__main__":
    for model_name in sys.argv[1:]:
        train(model_name)

"""A word-level language model: LSTM, GRU or Transformer, truncated backpropagation, SGD written by hand."""

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

Hidden = Any


class Recurrent(nn.Module):
    """Encoder, recurrent layers, decoder whose weights are the encoder's."""

    def __init__(self, kind: str, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(words, width)
        self.rnn = getattr(nn, kind)(width, width, layers, dropout=0.2)
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = self.encoder.weight
        self.kind, self.width, self.layers = kind, width, layers

    def forward(self, text: torch.Tensor, hidden: Hidden) -> tuple[torch.Tensor, Hidden]:
        output, hidden = self.rnn(self.drop(self.encoder(text)), hidden)
        decoded = self.decoder(self.drop(output))
        return nn.functional.log_softmax(decoded.view(-1, decoded.size(-1)), dim=1), hidden

    def start(self, batch: int) -> Hidden:
        weight = next(self.parameters())
        state = weight.new_zeros(self.layers, batch, self.width)
        return (state, torch.zeros_like(state)) if self.kind == "LSTM" else state


class Attentive(nn.Module):
    """Encoder with positions, causal Transformer layers, decoder."""

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        positions = torch.arange(0, 512, dtype=torch.float).unsqueeze(1)
        rates = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10000.0) / width))
        waves = torch.zeros(512, width)
        waves[:, 0::2], waves[:, 1::2] = torch.sin(positions * rates), torch.cos(positions * rates)
        self.register_buffer("waves", waves.unsqueeze(1))
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.2), layers, enable_nested_tensor=False
        )
        self.decoder = nn.Linear(width, words)
        self.mask: torch.Tensor | None = None

    def forward(self, text: torch.Tensor, hidden: Hidden) -> tuple[torch.Tensor, Hidden]:
        if self.mask is None or self.mask.size(0) != len(text):
            self.mask = torch.log(torch.tril(torch.ones(len(text), len(text)))).to(text.device)
        width = self.embedding.embedding_dim
        embedded = self.embedding(text) * math.sqrt(width) + self.waves[: text.size(0)]
        decoded = self.decoder(self.layers(embedded, mask=self.mask))
        return nn.functional.log_softmax(decoded, dim=-1).view(-1, decoded.size(-1)), hidden

    def start(self, batch: int) -> Hidden:
        return None


def detached(hidden: Hidden) -> Hidden:
    """Cut the history of a hidden state."""
    if isinstance(hidden, torch.Tensor):
        return hidden.detach()
    return None if hidden is None else tuple(detached(part) for part in hidden)


def columns(text: torch.Tensor, count: int, device: torch.device) -> torch.Tensor:
    """Lay a text out in columns that are read side by side."""
    length = text.size(0) // count
    return text.narrow(0, 0, length * count).view(count, -1).t().contiguous().to(device)


def window(source: torch.Tensor, start: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return some words and those that follow them."""
    length = min(length, len(source) - 1 - start)
    return source[start : start + length], source[start + 1 : start + 1 + length].view(-1)


def evaluate(model: Any, source: torch.Tensor, length: int, criterion: nn.Module) -> float:
    model.eval()
    total, hidden = 0.0, model.start(source.size(1))
    with torch.no_grad():
        for start in range(0, source.size(0) - 1, length):
            words, targets = window(source, start, length)
            output, hidden = model(words, hidden)
            total += len(words) * criterion(output, targets).item()
    return total / (len(source) - 1)


def train(model: Any, source: torch.Tensor, length: int, criterion: nn.Module, rate: float) -> None:
    model.train()
    total, hidden = 0.0, model.start(source.size(1))
    for start in range(0, source.size(0) - 1, length):
        words, targets = window(source, start, length)
        model.zero_grad()
        hidden = detached(hidden)
        output, hidden = model(words, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-rate)
        total += loss.item()
    print(f"lr {rate:.2f} loss {total:.2f} ppl {math.exp(total / len(source) * length):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["LSTM", "GRU", "Transformer"])
    words, width, layers, length = 1000, 64, 2, 16
    device = torch.device("cuda")
    source = columns(torch.randint(0, words, (2000,)), 20, device)
    criterion = nn.NLLLoss()
    for kind in parser.parse_args().models:
        model: Any = Attentive(words, width, layers) if kind == "Transformer" else Recurrent(kind, words, width, layers)
        model = model.to(device)
        if kind != "Transformer":
            assert model.decoder.weight is model.encoder.weight, "tied weights stay tied"
            model.rnn.flatten_parameters()
        best, rate = None, 20.0
        for _ in range(2):
            train(model, source, length, criterion, rate)
            loss = evaluate(model, source, length, criterion)
            print(f"{kind}: valid loss {loss:.2f} ppl {math.exp(loss):.2f}")
            if best is None or loss < best:
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "model.pt"
                    torch.save(model, path)
                    model = torch.load(path, weights_only=False)
                best = loss
            else:
                rate /= 4.0
        if kind != "Transformer":
            assert model.decoder.weight is model.encoder.weight, "and after loading"


if __name__ == "__main__":
    main()

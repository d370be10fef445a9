"""A sequence-to-sequence Transformer: masks, label smoothing, a warm-up, and greedy decoding in half precision."""

import math

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

WORDS, PAD, BEGIN, END = 200, 0, 1, 2


class Translator(nn.Module):
    """Embeddings with positions around nn.Transformer."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.source, self.target = (
            nn.Embedding(WORDS, width, padding_idx=PAD),
            nn.Embedding(WORDS, width, padding_idx=PAD),
        )
        self.positions = nn.Parameter(torch.randn(64, width) * 0.02)
        self.transformer = nn.Transformer(width, 4, 2, 2, 64, dropout=0.1, batch_first=True)
        self.output = nn.Linear(width, WORDS)

    def embed(self, table: nn.Embedding, words: torch.Tensor) -> torch.Tensor:
        return table(words) * math.sqrt(table.embedding_dim) + self.positions[: words.size(1)]

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        length = target.size(1)
        causal = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        hidden = self.transformer(
            self.embed(self.source, source),
            self.embed(self.target, target),
            tgt_mask=causal,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_is_causal=True,
        )
        return self.output(hidden)

    @torch.inference_mode()
    def greedy(self, source: torch.Tensor, longest: int) -> torch.Tensor:
        memory = self.transformer.encoder(self.embed(self.source, source), src_key_padding_mask=source == PAD)
        words = torch.full((source.size(0), 1), BEGIN, dtype=torch.long, device=source.device)
        for _ in range(longest):
            hidden = self.transformer.decoder(self.embed(self.target, words), memory)
            words = torch.cat([words, self.output(hidden[:, -1]).argmax(-1, keepdim=True)], dim=1)
            if (words == END).any(dim=1).all():
                break
        return words


def sentence(length: int) -> torch.Tensor:
    return torch.cat([torch.tensor([BEGIN]), torch.randint(3, WORDS, (length,)), torch.tensor([END])])


def together(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    sources, targets = zip(*pairs, strict=True)
    return pad_sequence(list(sources), batch_first=True), pad_sequence(list(targets), batch_first=True)


def main() -> None:
    pairs = [(sentence(3 + number % 5), sentence(2 + number % 4)) for number in range(24)]
    loader = DataLoader(pairs, batch_size=8, shuffle=True, collate_fn=together, pin_memory=True)
    model = Translator().cuda()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) ** -0.5, (step + 1) * 400**-1.5))
    for epoch in range(2):
        model.train()
        for source, target in loader:
            source, target = source.cuda(non_blocking=True), target.cuda(non_blocking=True)
            logits = model(source, target[:, :-1])
            loss = criterion(logits.reshape(-1, WORDS), target[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            warm_up.step()
        print(f"epoch {epoch} loss {loss.item():.3f} lr {warm_up.get_last_lr()[0]:.2e}")
    model.eval().half()
    words = model.greedy(source, longest=6)
    assert words.shape == (source.size(0), 7)
    print([int(word) for word in words[0].cpu()])


if __name__ == "__main__":
    main()

"""Trainer runs of small models with random weights: GPT-2 in fp16, BERT in bf16; checkpoints, resuming, generation."""

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)


class Sentences(Dataset[dict[str, torch.Tensor]]):
    """Random words, with labels for the next word or for the whole sentence."""

    def __init__(self, count: int, length: int, words: int, classes: int = 0) -> None:
        generator = torch.Generator().manual_seed(0)
        self.words = torch.randint(0, words, (count, length), generator=generator)
        self.labels = torch.randint(0, classes, (count,), generator=generator) if classes else self.words

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = self.words[index]
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": self.labels[index]}


def arguments(folder: str, **more: Any) -> TrainingArguments:
    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,
        num_train_epochs=1,
        eval_strategy="steps",
        eval_steps=2,
        save_steps=2,
        save_total_limit=2,
        logging_steps=1,
        learning_rate=1e-3,
        warmup_steps=1,
        dataloader_num_workers=0,
        report_to=[],
        disable_tqdm=True,
        **more,
    )


def gpt2(folder: str) -> None:
    """Train a language model, load its checkpoint and let it write."""
    config = GPT2Config(vocab_size=128, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1)
    model = GPT2LMHeadModel(config)
    data = Sentences(32, 16, 128)
    trainer = Trainer(model=model, args=arguments(folder, fp16=True), train_dataset=data, eval_dataset=data)
    result = trainer.train()
    assert result.global_step == 4
    assert model.lm_head.weight is model.transformer.wte.weight, "tied weights stay tied"
    evaluation = trainer.evaluate()
    print(f"gpt2: loss {result.training_loss:.4f} perplexity {math.exp(evaluation['eval_loss']):.3f}")
    checkpoint = Path(folder) / "checkpoint-4"
    assert (checkpoint / "model.safetensors").stat().st_size > 4 * sum(p.numel() for p in model.parameters())
    assert json.loads((checkpoint / "trainer_state.json").read_text())["global_step"] == 4
    again = Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments(folder, fp16=True, max_steps=6),
        train_dataset=data,
        eval_dataset=data,
    )
    assert again.train(resume_from_checkpoint=str(checkpoint)).global_step == 6
    loaded = AutoModelForCausalLM.from_pretrained(checkpoint).to("cuda").eval()
    prompt = torch.tensor([[5, 6, 7]], device="cuda")
    for how in (
        {"do_sample": False},
        {"do_sample": True, "top_k": 8},
        {"do_sample": True, "top_p": 0.9, "temperature": 0.7},
    ):
        written = loaded.generate(prompt, max_new_tokens=4, pad_token_id=0, **how)
        assert written.is_cuda
        assert written.shape == (1, 7), "nothing tells it to stop before"


def bert(folder: str) -> None:
    """Train a classifier with a metric, and keep the best checkpoint."""
    config = BertConfig(
        vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_labels=3
    )
    model = BertForSequenceClassification(config)
    data = Sentences(32, 16, 128, classes=3)
    trainer = Trainer(
        model=model,
        args=arguments(
            folder,
            bf16=True,
            gradient_checkpointing=True,
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
            optim="adamw_torch_fused",
            lr_scheduler_type="cosine",
            weight_decay=0.01,
            label_smoothing_factor=0.1,
        ),
        train_dataset=data,
        eval_dataset=data,
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
    )
    result = trainer.train()
    print(f"bert: loss {result.training_loss:.4f} {trainer.evaluate()['eval_accuracy']:.3f}")
    assert trainer.state.best_model_checkpoint is not None
    predictions = trainer.predict(data)
    assert predictions.predictions.shape == (32, 3)
    assert next(model.parameters()).is_cuda


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["gpt2", "bert"])
    for name in parser.parse_args().models:
        with tempfile.TemporaryDirectory() as folder:
            {"gpt2": gpt2, "bert": bert}[name](folder)

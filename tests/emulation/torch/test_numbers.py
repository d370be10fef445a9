"""Numbers that a program reads: real ones with --compute, a curve of the user's with --loss."""

import json
from collections.abc import Callable

import pytest
from tests.emulation.torch.conftest import Finished

pytest.importorskip("torch", reason="torch is not installed")

Run = Callable[..., Finished]

TRAINING = """
import json, torch
from torch import nn

def train(device, width, scaled):
    torch.manual_seed(3)
    layers = nn.Linear(8, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width), nn.Linear(width, 3)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=scaled)
    inputs = torch.randn(64, 8).to(device)
    labels = (inputs[:, 0].cpu() > 0).long().to(device)
    losses = []
    for step in range(6):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    accuracy = (model(inputs).argmax(1) == labels).float().mean().item()
    return [*losses, accuracy, model[0].weight.abs().sum().item()]
"""


def test_computing_for_real_gives_the_host_s_numbers(forked: Run) -> None:
    program = TRAINING + "print(json.dumps([train(d, 100, s) for s in (False, True) for d in ('cpu', 'cuda')]))"
    plain, computed, plain_scaled, computed_scaled = json.loads(forked(program, compute="1", clock="virtual").stdout)
    assert computed == pytest.approx(plain, rel=1e-4)
    assert computed_scaled == pytest.approx(plain_scaled, rel=1e-4)
    assert plain[5] < plain[0], "it learns"


def test_large_models_follow_the_user_s_curve_and_the_numbers_of_small_ones_are_real(forked: Run) -> None:
    program = TRAINING + "print(json.dumps([train(d, w, True) for d, w in (('cuda', 100), ('cpu', 9), ('cuda', 9))]))"
    large, plain, small = json.loads(forked(program, loss="3,2,1.5", clock="virtual").stdout)
    assert large[:6] == [3.0, 2.0, 1.5, 1.5, 1.5, 1.5], "it stays at the curve's end"
    assert small == pytest.approx(plain, rel=1e-4)

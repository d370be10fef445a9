"""Ordinary programs, written for CUDA, run unchanged on emulated GPUs."""

import pytest
from tests.emulation.programs.running import run


@pytest.mark.parametrize(
    "name",
    [
        "accelerated", "classify_images", "detection", "generative", "habits", "language_model",
        "lightning_loop", "mistakes", "operations", "policy_gradient", "segmentation", "streams_and_graphs",
        "techniques", "translate", "two_gpus",
    ],
)  # fmt: skip
def test_program_runs(name: str) -> None:
    assert run(name).stdout


@pytest.mark.parametrize("model", ["gpt2", "bert"])
def test_trainer_of_hugging_face_trains_saves_and_resumes(model: str) -> None:
    assert run("hugging_face", model, gpus="V100").stdout


def test_digits_are_learnt_and_nothing_is_said_twice() -> None:
    done = run("digits")
    losses = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("Train")]
    assert len(losses) > 1
    assert losses == sorted(losses, reverse=True)
    notices = [line for line in done.stderr.splitlines() if line.startswith("gpuyard:")]
    assert len(notices) == len(set(notices))

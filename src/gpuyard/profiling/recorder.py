"""Measures the steps of a PyTorch program from inside, with nothing but torch's own events and hooks.

It works the same on a real GPU and on an emulated one; only what the events say differs.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from pathlib import Path
from typing import Any

VARIABLE = "GPUYARD_RECORD"
"""Names the file that the recorded steps go to; without it nothing is recorded."""
WARM_UP = 2
"""First steps that do not count."""
SLOWEST = 0.2
"""Share of the slowest steps that does not count: what disturbed them is not the program."""


def autoload() -> None:
    """Called by `import torch` through the entry point group `torch.backends`."""
    target = os.environ.get(VARIABLE)
    if target:
        recorder = StepRecorder()
        recorder.install()
        atexit.register(recorder.write, Path(target), os.getpid())


class Step:
    """One training step: three events, and what it worked on."""

    def __init__(self, batch: int, shape: tuple[int, ...], precision: str) -> None:
        self.batch, self.shape, self.precision = batch, shape, precision
        self.events: list[Any] = []
        self.peak_bytes = self.persistent_bytes = 0

    def mark(self) -> None:
        """Record an event on the current stream."""
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self.events.append(event)


class StepRecorder:
    """Follows the largest model that a program moves to a GPU."""

    def __init__(self) -> None:
        self.model: Any = None
        self.steps: list[Step] = []
        self.running: Step | None = None
        self.optimizer = ""

    def install(self) -> None:
        """Look at every module that is moved, and at every optimizer step."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        for name in ("to", "cuda"):
            setattr(torch.nn.Module, name, self._noticing(getattr(torch.nn.Module, name)))
        register_optimizer_step_post_hook(self._after_step)

    def _noticing(self, move: Any) -> Any:
        def moving(module: Any, *args: Any, **kwargs: Any) -> Any:
            moved = move(module, *args, **kwargs)
            self._consider(module)
            return moved

        return moving

    def _consider(self, module: Any) -> None:
        parameter = next(module.parameters(), None)
        if parameter is None or not parameter.is_cuda or module is self.model:
            return
        if self.model is None or _size(module) > _size(self.model):
            self.model, self.steps = module, []
            module.register_forward_pre_hook(self._before_forward, with_kwargs=True)
            module.register_forward_hook(self._after_forward)

    def _before_forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch

        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor) and value.dim()]
        if module is not self.model or not module.training or not tensors:
            return
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        lower = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else tensors[0].dtype
        precision = {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(lower, "fp32")
        self.running = Step(int(tensors[0].shape[0]), tuple(tensors[0].shape[1:]), precision)
        self.running.mark()

    def _after_forward(self, module: Any, args: Any, output: Any) -> None:  # noqa: ARG002
        if module is self.model and self.running is not None:
            self.running.mark()

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG002
        import torch

        if self.running is None or len(self.running.events) != 2:
            return
        self.running.mark()
        self.running.peak_bytes = torch.cuda.max_memory_allocated()
        self.running.persistent_bytes = torch.cuda.memory_allocated()
        self.steps.append(self.running)
        self.running, self.optimizer = None, type(optimizer).__name__

    def write(self, target: Path, owner: int) -> None:
        """Write what was measured, when the program ends."""
        if os.getpid() != owner or not self.steps:
            return
        import torch

        torch.cuda.synchronize()
        first = self.steps[0]
        content = {
            "model": type(self.model).__name__.lower(),
            "gpu_name": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "date": time.strftime("%Y-%m-%d"),
            "optimizer": self.optimizer,
            "precision": first.precision,
            "input_shape": first.shape,
            "shapes": [tuple(parameter.shape) for parameter in self.model.parameters()],
            "points": [self._point(batch) for batch in sorted({step.batch for step in self.steps})],
        }
        target.write_text(json.dumps(content), encoding="utf-8")

    def _point(self, batch: int) -> dict[str, float]:
        """Average the steps of one batch size, without warm-up and without the slowest."""
        steps = [step for step in self.steps if step.batch == batch]
        times = [
            (step.events[0].elapsed_time(step.events[1]) / 1e3, step.events[1].elapsed_time(step.events[2]) / 1e3)
            for step in steps[min(WARM_UP, len(steps) - 1) :]
        ]
        kept = sorted(times, key=sum)[: max(1, round(len(times) * (1 - SLOWEST)))]
        return {
            "batch": batch,
            "forward_s": sum(forward for forward, _ in kept) / len(kept),
            "backward_s": sum(backward for _, backward in kept) / len(kept),
            "peak_bytes": max(step.peak_bytes for step in steps),
            "persistent_bytes": max(step.persistent_bytes for step in steps),
            "steps": len(kept),
        }


def _size(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())

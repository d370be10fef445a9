"""What agents tell a scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.client.session import RankName


@dataclass(frozen=True)
class RankProgress:
    """How far one process of a job is."""

    name: RankName
    step: int = 0
    saved_step: int = 0
    working: bool = False
    load_s: float = 0.0
    """What loading the last checkpoint took, in seconds of the machine, as the two below."""
    saves: int = 0
    save_s: float = 0.0
    error: str = ""
    loaded_step: int = 0
    """Steps behind what it began with."""
    terms: int = 0
    """Those of its lease under which the next two were measured."""
    measured_steps: int = 0
    measured_s: float = 0.0
    """In seconds of the machine."""
    said: str = ""
    """What a program last said of its batch size, as it came."""


@dataclass(frozen=True)
class RankExit:
    """How one process of a job ended."""

    last: RankProgress
    code: int = 0
    left: bool = False
    """It said that it would: its lease was over, or all steps were done."""
    finished: bool = False
    tail: str = ""
    """The last lines of its log, if it did not say so."""
    number: int = 0
    """By which its agent knows that this was heard."""
    leave_s: float = 0.0
    """From saying so to its end, in seconds of the machine."""

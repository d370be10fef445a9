"""What a file of a deployment may say."""

from __future__ import annotations

from pydantic import Field

from gpuyard.profiles.checking import NotNegative, Positive, Strict
from gpuyard.profiles.inference import BATCHES
from gpuyard.profiles.inference.model import ONE_NUMBER


class GpusEntry(Strict):
    """GPUs of one node."""

    node: str = Field(min_length=1)
    type: str = Field(min_length=1)
    count: int = Field(ge=1)


class ServiceEntry(Strict):
    """A service, and what is planned for it."""

    service: int | str
    model: str
    rate: Positive
    slo_ms: Positive
    priority: int = 0
    gpu_types: str = ""
    capacity: NotNegative = 0.0
    headroom: float = 0.0
    predicted_latency_ms: Positive | None = None
    expected_missed: NotNegative | None = None


class TurnEntry(Strict):
    """A service on a slice."""

    service: int | str
    model: str
    batch: int = Field(ge=1, le=BATCHES)
    rate: NotNegative
    headroom: NotNegative = 0.0
    takes_ms: Positive
    predicted_latency_ms: Positive
    slo_ms: Positive


class SliceEntry(Strict):
    """A slice of a GPU."""

    gpu: int = Field(ge=0)
    share: float = Field(gt=0, le=1)
    memory_gb: NotNegative
    duty_ms: NotNegative
    models: list[TurnEntry]


class UnservedEntry(Strict):
    """What finds no place."""

    service: int | str
    model: str
    rate: NotNegative
    reason: str


class StageEntry(Strict):
    """A stage of an application."""

    stage: str
    service: str
    model: str
    after: list[str] = Field(default_factory=list)
    per_request: Positive = 1.0
    slo_ms: Positive
    predicted_latency_ms: Positive | None = None
    asked_at_once: Positive | None = None


class ApplicationEntry(Strict):
    """An application, and when it answers."""

    application: str
    rate: Positive
    slo_ms: Positive
    predicted_latency_ms: Positive | None = None
    stages: list[StageEntry] = Field(min_length=1)


class ModelEntry(Strict):
    """A model of the user's own device."""

    latency_ms: dict[int, dict[int, Positive]]
    gathering_ms: list[NotNegative] = Field(min_length=BATCHES, max_length=BATCHES)
    memory_mb: NotNegative
    input_bytes: int = Field(ge=0)
    traffic: dict[int, tuple[float, float]]
    input: tuple[str, tuple[int, ...]] = ONE_NUMBER
    output: tuple[str, tuple[int, ...]] = ONE_NUMBER


class DeviceEntry(Strict):
    """A GPU type of the user's own."""

    memory_mb: Positive
    interference: tuple[float, float, float, float, float]
    models: dict[str, ModelEntry]


class PlanFile(Strict):
    """All of it."""

    gpuyard: str
    feasible: bool
    tail: float | None = Field(default=None, ge=0.5, le=0.9999)
    gpus_used: int
    violations: list[str]
    slices: list[SliceEntry]
    unserved: list[UnservedEntry]
    gpus: list[GpusEntry] = Field(min_length=1)
    services: list[ServiceEntry] = Field(min_length=1)
    buffer: float = Field(ge=1, allow_inf_nan=False)
    interference: bool
    published: bool = False
    latencies: dict[str, dict[int, dict[int, Positive]]] | None = None
    applications: list[ApplicationEntry] = Field(default_factory=list)
    devices: dict[str, DeviceEntry] | None = None
    moves: list[str] | None = None

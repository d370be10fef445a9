"""The rules of a GPU file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from gpuyard.profiles.checking import NotNegative, Positive, Strict, check


class _Rates(Strict):
    """Peak TFLOP/s by precision."""

    fp32: Positive
    fp64: Positive | None = None
    tf32: Positive | None = None
    fp16: Positive | None = None
    bf16: Positive | None = None
    int8: Positive | None = None


class _Copy(Strict):
    pageable_gb_s: Positive | None = None
    pinned_gb_s: Positive | None = None
    latency_us: NotNegative | None = None


class _Link(Strict):
    name: str | None = None
    gb_s: Positive | None = None
    latency_us: NotNegative | None = None


class _Kind(Strict):
    name: Annotated[str, Field(min_length=1)] | None = None
    architecture: str | None = None
    compute_capability: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=0)]] | None = None
    multiprocessors: Annotated[int, Field(ge=1)] | None = None
    memory_mib: Positive
    bandwidth_gb_s: Positive
    tflops: _Rates
    copy_: Annotated[_Copy | None, Field(alias="copy")] = None
    link: _Link | None = None
    launch_latency_us: NotNegative | None = None
    kernel_floor_us: Positive | None = None
    power_w: tuple[NotNegative, Positive] | None = None
    clocks_mhz: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None

    @model_validator(mode="after")
    def _idles_below_its_limit(self) -> _Kind:
        if self.power_w is not None and self.power_w[0] > self.power_w[1]:
            raise ValueError("power_w is [idle, limit], and a GPU does not idle above its limit")
        return self


class _BundledKind(_Kind):
    aliases: list[str] = Field(default_factory=list)
    measured: bool = False


class _Bundled(Strict):
    gpus: dict[str, _BundledKind]


def checked_kind(content: Any, file: str) -> dict[str, Any]:
    """Return what a GPU file states, without what it leaves out, or raise InputError."""
    return check(_Kind, content, file, "GPU file").model_dump(exclude_none=True, by_alias=True)


def check_bundled(content: Any, file: str) -> None:
    """Raise InputError unless the content is a collection of GPU kinds."""
    check(_Bundled, content, file, "collection of GPU kinds")

"""Profiles as lines and rows to print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuyard.profiles import LatencyProfile, ModelProfile, StepPoint, StepProfile, Zoo
    from gpuyard.profiles.fitting import Fit


def model_row(zoo: Zoo, model: str) -> dict[str, Any]:
    """A line of the list: what is known of a model."""
    profile, steps = zoo.profile(model), zoo.steps(model)
    return {
        "model": profile.name,
        "also": list(profile.aliases),
        "task": profile.task,
        "throughput": f"on {profile.gpu_type}" if profile.has_throughput else "",
        "steps": list(dict.fromkeys(each.gpu for each in steps)),
        "precisions": list(dict.fromkeys(each.precision for each in steps)),
        "latency": [each.gpu for each in profile.latency],
        "memory": "by batch" if _has_memory(profile, steps) else "",
        "slowdown": [each.beside for each in profile.slowdown],
    }


def facts(zoo: Zoo, profile: ModelProfile) -> dict[str, Any]:
    """What is known of a model, a line for each part."""
    return {
        "model": profile.name,
        "also": ", ".join(profile.aliases) or "-",
        "title": profile.title,
        "throughput": _throughput_text(profile),
        "steps": _steps_text(zoo.steps(profile.name)),
        "latency": " | ".join(map(_latency_text, profile.latency)) or "not known: it cannot be planned for",
        "serving": _serving_text(profile) if profile.latency else "not known",
        "gpu_memory": "by batch" if _has_memory(profile, zoo.steps(profile.name)) else "not known",
        "slowdown": _slowdown_text(profile),
    }


def _throughput_text(profile: ModelProfile) -> str:
    if not profile.has_throughput:
        return "not known: it cannot be simulated"
    cpus, memory, storage, speed = profile.best()
    best = f"{speed:g} at best, with {cpus:g} CPUs, {memory:g} GB and {storage:g} MB/s per GPU"
    return f"{profile.iteration_s:g} s per iteration at 1.0; {best}; on {profile.gpu_type}; source: {profile.source}"


def _latency_text(latency: LatencyProfile) -> str:
    slices = ", ".join(f"{percent}" for percent in sorted(latency.latency_ms))
    batches = _batches(latency)
    return f"on {latency.gpu}: slices of {slices} %, batches of {batches[0]} to {batches[-1]}"


def _serving_text(profile: ModelProfile) -> str:
    serving = profile.serving
    brings, gets = (
        f"{kind.datatype} {'x'.join(map(str, kind.shape))}" for kind in (serving.input, serving.output)
    )  # fmt: skip
    gathering = f"{serving.gathering_ms[0]:g} to {serving.gathering_ms[-1]:g} ms to gather a batch"
    return f"{profile.served_mb:g} MB; brings {brings}, gets {gets}; {gathering}"


def _slowdown_text(profile: ModelProfile) -> str:
    told = [f"{each.factor:g} beside {each.beside}" for each in profile.slowdown]
    gpus = ", ".join(each.gpu for each in profile.latency if each.traffic)
    return ", ".join([*told, *([f"by the traffic of both on slices of {gpus}"] if gpus else [])]) or "not known"


def _batches(latency: LatencyProfile) -> list[int]:
    return sorted({batch for row in latency.latency_ms.values() for batch in row})


def slice_rows(latency: LatencyProfile) -> list[dict[str, Any]]:
    """Milliseconds of each batch size by slice, and its traffic; None where nobody has measured."""
    return [
        {
            "batch": batch,
            **{f"ms_{percent}": latency.latency_ms[percent].get(batch) for percent in sorted(latency.latency_ms)},
            **dict(zip(("l2", "dram"), latency.traffic.get(batch, (None, None)), strict=True)),
        }
        for batch in _batches(latency)
    ]


def _steps_text(steps: tuple[StepProfile, ...]) -> str:
    groups: dict[tuple[str, str], list[str]] = {}
    for each in steps:
        groups.setdefault((each.precision, each.source), []).append(each.gpu)
    texts = (f"{precision} on {', '.join(gpus)}; source: {source}" for (precision, source), gpus in groups.items())
    return " | ".join(texts) or "not known"


def _has_memory(profile: ModelProfile, steps: tuple[StepProfile, ...]) -> bool:
    return profile.memory is not None or any(point.peak_bytes for each in steps for point in each.points)


def speed_row(profile: ModelProfile, gpu: str) -> dict[str, Any]:
    """How fast a model is on a GPU kind, and how that is known."""
    speed = profile.speed_on(gpu)
    return {
        "gpu": gpu,
        "speed": speed.factor,
        "known": speed.origin,
        "error_pct": speed.expected_error * 100 if speed.estimated else None,
        "source": speed.source,
    }


def as_dicts(part: object) -> object:
    """A part of a profile as what JSON has."""
    if isinstance(part, tuple):
        return [each._asdict() if hasattr(each, "_asdict") else vars(each) for each in part]
    return None if part is None else vars(part)


def point_row(point: StepPoint) -> dict[str, Any]:
    """A batch size of a step profile."""
    step_s = point.forward_s + point.backward_s
    return {
        "batch": point.batch,
        "forward_ms": point.forward_s * 1e3,
        "backward_ms": point.backward_s * 1e3,
        "step_ms": step_s * 1e3,
        "images_per_s": point.batch / step_s,
        "peak_mib": None if point.peak_bytes is None else point.peak_bytes / 2**20,
        "time": "measured" if point.measured else "predicted",
        "memory": None if point.peak_bytes is None else "measured" if point.memory_measured else "predicted",
    }


def fit_row(fit: Fit) -> dict[str, Any]:
    """How well measured steps predict each other."""
    percent = {f"{name}_error_pct": None if error is None else error * 100 for name, error in fit.errors.items()}
    return {"gpu": fit.gpu, "model": fit.model, "points": fit.points, "held_out": fit.held_out, **percent}

"""Deft's experiment files: read as they are, and every fault named with file, field, value and rule."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.core.errors import InputError
from gpuyard.core.sharing import SharingExperiment
from gpuyard.traces.sharing import read_experiment

SHIPPED: dict[str, Any] = {
    "models": [
        {
            "model_name": "fasterrcnn_resnet50_fpn",
            "model_weight": "FasterRCNN_ResNet50_FPN_Weights",
            "sleep_time": 0,
            "input_file_path": "../data/frame.png",
            "output_file_path": "./logs",
            "output_file_name": "model_A",
            "priority": 0,
            "resize": True,
            "resize_size": [1440, 2560],
            "batch_size": 1,
            "sync_level": "",
            "control": {
                "control": True, "controlsync": True, "controlEvent": False,
                "queue_limit": {"sync": 1, "event_group": 2},
            },
        },
        {
            "model_name": "fasterrcnn_resnet50_fpn",
            "model_weight": "FasterRCNN_ResNet50_FPN_Weights",
            "sleep_time": 1,
            "input_file_path": "../data/frame.png",
            "output_file_path": "./logs",
            "output_file_name": "model_B",
            "priority": 1,
            "resize": True,
            "resize_size": [720, 1280],
            "batch_size": 1,
            "sync_level": "",
            "control": {"control": True, "controlsync": False, "controlEvent": False},
        },
    ],
    "exp_dur": 30,
    "device_id": 0,
}  # fmt: skip
"""As `input_controlsync.json` is described: the same detector at 1440p without a pause, and at 720p once a second."""


def changed(**changes: Any) -> dict[str, Any]:
    """The shipped file with other values: `device_id`, `A_priority`, `A_control_controlsync`; None takes one away."""
    content: dict[str, Any] = json.loads(json.dumps(SHIPPED))
    for place, value in changes.items():
        where, name = content, place
        if place[:2] in ("A_", "B_"):
            where, name = content["models"]["AB".index(place[0])], place[2:]
        if name.startswith("control_"):
            where, name = where["control"], name.removeprefix("control_")
        if value is None:
            del where[name]
        else:
            where[name] = value
    return content


def read(folder: Path, content: Any) -> SharingExperiment:
    path = folder / "experiment.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_experiment(path)


def test_a_shipped_file_means_what_it_means_to_deft(tmp_path: Path) -> None:
    found = read(tmp_path, SHIPPED)
    low, high = found.jobs
    assert (found.seconds, found.policy, found.sharing, found.notes) == (30, "priority", "fifo", ())
    assert (low.name, low.priority, low.sync_every, low.window, low.gated) == ("model_A", 0, 1, 0, True)
    assert (high.name, high.priority, high.sync_every, high.gated) == ("model_B", 1, 0, True)
    assert (low.thinks_s, high.thinks_s) == ((0.0,), (1.0,))
    assert low.sequence.total_s == pytest.approx(4 * high.sequence.total_s)  # four times the pixels
    assert "assumed" in low.sequence.source
    assert low.least_jobs == 10


def test_control_alone_gates_nothing_and_says_so(tmp_path: Path) -> None:
    found = read(tmp_path, changed(A_control_controlsync=False))
    assert not found.jobs[0].gated
    assert found.jobs[1].gated  # it announces its jobs
    assert found.notes == ("model_A: control without controlsync or controlEvent gates nothing, as in Deft",)
    assert not any(job.gated for job in read(tmp_path, changed(A_control_control=False, B_control_control=False)).jobs)


def test_of_both_caps_events_win(tmp_path: Path) -> None:
    low = read(tmp_path, changed(A_control_controlEvent=True)).jobs[0]
    assert (low.sync_every, low.window) == (0, 2)


def test_kernels_of_one_s_own_go_before_what_a_model_is_taken_for(tmp_path: Path) -> None:
    found = read(tmp_path, changed(A_model_name="mine", A_kernels=200, A_kernel_ms=0.3, A_layers=20))
    assert found.jobs[0].sequence.total_s == pytest.approx(0.06)
    assert found.jobs[0].sequence.layer_ends[:2] == (10, 20)
    (tmp_path / "k.json").write_text('{"gpuyard": "kernels/1", "durations_us": [100, 50.5]}')
    found = read(tmp_path, changed(A_sequence="k.json"))
    assert found.jobs[0].sequence.durations_s == pytest.approx((100e-6, 50.5e-6))


def test_a_layer_level_is_a_synchronisation_after_each_layer(tmp_path: Path) -> None:
    assert read(tmp_path, changed(A_sync_level="layer")).jobs[0].layers
    assert not read(tmp_path, changed(A_sync_level="kernel")).jobs[0].layers


def test_two_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    found = read(tmp_path, changed(B_output_file_name="model_A"))
    assert [job.name for job in found.jobs] == ["model_A", "model_A-2"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        # input_control.json is shipped with trailing commas.
        (json.dumps(SHIPPED, indent=1).replace('"device_id": 0', '"device_id": 0,'),
         "row 51: is not JSON: a comma stands before a closing bracket. Delete that comma"),
        ('{"models": [1, 2', "is not JSON"),
        ("[]", "must be an object with models, exp_dur and device_id"),
        # 1model.json and 3models.json are shipped without batch_size.
        (changed(A_batch_size=None), "field models[0], batch_size: is missing"),
        (changed(exp_dur=None), "field exp_dur: is missing"),
        (changed(device_id=None), "field device_id: is missing"),
        (changed(device_id="0"), "field device_id: '0' must be a whole number"),
        (changed(models={}), "field models: {} must be a list"),
        (changed(models=[]), "field models: must have at least one entry"),
        (changed(exp_dur=0), "field exp_dur: 0 must be a finite number, 1e-06 or more"),
        (changed(duration=3), "'duration' is not a field of an experiment"),
        (changed(A_prority=3), "field models[0]: 'prority' is not a field of a model's entry. Did you mean 'priority'"),
        (changed(A_control=None), "field models[0], control: is missing"),
        (changed(A_control_controlsync=None), "field models[0], control.controlsync: is missing"),
        (changed(A_control_controlsync="yes"), "field models[0], control.controlsync: 'yes' must be true or false"),
        (changed(A_control_queue_limit={"sync": 0}),
         "field models[0], control.queue_limit.sync: 0 must be a finite number, 1 or more"),
        (changed(A_control_queue_limit=None), "field models[0], control.queue_limit.sync: is missing"),
        (changed(A_control_controlEvent=True, A_control_queue_limit={"sync": 3}),
         "field models[0], control.queue_limit.event_group: is missing"),
        (changed(A_priority=True), "field models[0], priority: True must be a whole number"),
        (changed(B_priority=12), "field models[1], priority: 12 is beyond 9"),
        (changed(B_sleep_time=-1), "field models[1], sleep_time: -1 must be a finite number, 0 or more"),
        (changed(B_sleep_jitter=3), "sleep_jitter: 3 is more than sleep_time, 1. Write at most 1, or a longer"),
        (changed(device_id=2000), "field models[0], device_id: 2000 is beyond 1023"),
        (changed(A_slo_ms=1e300), "field models[0], slo_ms: 1e+300 is beyond 1e+09"),
        (changed(A_launch_us=-2), "field models[0], launch_us: -2 must be a finite number, 0 or more"),
        (changed(A_output_file_name="n" * 400), "output_file_name: 'nnnnnnnnnnnnnnnnnnnn…' has 400 letters"),
        (json.dumps(SHIPPED).replace('"device_id": 0', '"device_id": 0, "device_id": 1'), "'device_id' stands twice"),
        (changed(A_kernels=2, A_kernel_ms=1, A_layers=""), "field models[0], layers: '' must be a whole number"),
        (changed(A_kernels=2, A_kernel_ms=1, A_layers=0), "field models[0], layers: 0 must be a finite number, 1"),
        (changed(A_sync_level="layers"), "field models[0], sync_level: 'layers' is not layer, kernel or empty"),
        (changed(A_resize_size=[720]), "field models[0], resize_size: [720] must be [height, width]"),
        (changed(B_model_name="resnet9000"), "models[1], model: 'resnet9000' is a model of whose kernels nothing is"),
        (changed(A_kernels=200), "field models[0], kernel_ms: is missing"),
        (changed(A_kernels=0, A_kernel_ms=1), "field models[0], kernels: 0 must be a whole number, 1 or more"),
        (changed(A_sequence="nowhere.json"), "nowhere.json"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    assert complaint in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)

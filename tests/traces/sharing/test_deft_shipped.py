"""The files that Deft ships and that do not work there, with their faults: what is wrong is said, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli import main

DETECTOR = ("fasterrcnn_resnet50_fpn", "FasterRCNN_ResNet50_FPN_Weights")
SMALL = ("mobilenet_v3_small", "MobileNet_V3_Small_Weights")


def entry(model: tuple[str, str], name: str, priority: int, height: int, sleep_s: int, **more: Any) -> dict[str, Any]:
    """One model as Deft's own files describe it; it is shipped with a batch size only if that is given."""
    control = {"control": True, "controlsync": False, "controlEvent": False}
    return {
        "model_name": model[0], "model_weight": model[1], "sleep_time": sleep_s, "priority": priority,
        "input_file_path": "frame.png", "output_file_path": "./logs", "output_file_name": name,
        "resize": True, "resize_size": [height, height * 16 // 9], "sync_level": "",
        "control": {**control, "queue_limit": {"sync": 1, "event_group": 2}}, **more,
    }  # fmt: skip


def shipped(*models: dict[str, Any]) -> str:
    return json.dumps({"models": models, "exp_dur": 30, "device_id": 0}, indent=4)


BOTH = (
    entry(DETECTOR, "model_A", 0, 1440, 0, batch_size=1),
    entry(DETECTOR, "model_B", 1, 720, 1, batch_size=1),
)
SOUND = shipped(*BOTH)
INPUT_CONTROL = SOUND.replace('"event_group": 2\n', '"event_group": 2,\n')
FIRST_COMMA = INPUT_CONTROL[: INPUT_CONTROL.index('"event_group": 2,')].count("\n") + 1
THREE = (entry(DETECTOR, "A", 0, 1440, 0), entry(SMALL, "B", 1, 720, 1), entry(SMALL, "C", 1, 720, 2))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "input_control.json",
            INPUT_CONTROL,
            f"row {FIRST_COMMA}: is not JSON: a comma stands before a closing bracket. Delete that comma",
        ),
        ("1model.json", shipped(THREE[0]), "field models[0], batch_size: is missing"),
        ("3models.json", shipped(*THREE), "field models[0], batch_size: is missing"),
        (
            "3models.json",
            shipped({**THREE[0], "batch_size": 1}, *THREE[1:]),
            "field models[1], batch_size: is missing",
        ),
    ],
)
def test_a_broken_file_that_is_shipped(
    name: str,
    content: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["share", name, "--no-figures"])
    printed = capsys.readouterr().err
    assert ended.value.code == 2
    assert name in printed
    assert said in printed
    assert printed.count("\n") == 1


def test_the_same_files_mended_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("input_control.json").write_text(SOUND)
    Path("3models.json").write_text(shipped(*({**each, "batch_size": 1} for each in THREE)))
    for name in ("input_control.json", "3models.json"):
        with pytest.raises(SystemExit) as ended:
            main(["share", name, "--seconds", "0.5", "--no-figures", "--quiet", "--format", "json"])
        assert not ended.value.code
        assert json.loads(capsys.readouterr().out)

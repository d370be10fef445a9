"""Step profiles of one's own: files, the folder they are imported to, and the errors they get."""

from pathlib import Path

import pytest

from gpuyard.core.errors import InputError
from gpuyard.profiles import StepPoint, StepProfile, find_step_profile, import_profile
from gpuyard.profiles.step_files import dump_steps, parse_steps
from gpuyard.profiles.step_store import step_models, user_folder

OWN = """
model: mynet
precision: bf16
input_shape: [512]
optimizer: AdamW
signatures: ["0123456789ab"]
source: our own servers
gpus:
  A100:
    steps:
      8: [10, 20]
      1: [5, 10.5]
      64: [80, 160]
    predicted: [64]
  V100:
    steps:
      8: [20, 40, 300.5, 100]
    predicted_memory: [8]
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GPUYARD_PROFILES", str(tmp_path / "own"))
    return tmp_path / "own"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_what_it_says() -> None:
    a100, v100 = parse_steps(OWN, "mine.yaml")
    assert a100 == StepProfile(
        model="mynet",
        gpu="A100",
        points=(StepPoint(1, 0.005, 0.0105), StepPoint(8, 0.01, 0.02), StepPoint(64, 0.08, 0.16, measured=False)),
        precision="bf16",
        input_shape=(512,),
        optimizer="AdamW",
        signatures=("0123456789ab",),
        source="our own servers",
    )
    (point,) = v100.points
    assert (point.peak_bytes, point.persistent_bytes) == (300.5 * 2**20, 100 * 2**20)
    assert (point.measured, point.memory_measured) == (True, False)


def test_what_is_written_is_read_again() -> None:
    profiles = parse_steps(OWN.replace("our own servers", "'our: \"own\" # 1'"), "mine.yaml")
    assert parse_steps(dump_steps(profiles), "again.yaml") == profiles


def test_an_imported_profile_is_found_by_name_and_signature(tmp_path: Path, folder: Path) -> None:
    paths = import_profile(write(tmp_path, OWN))
    assert [path.parent for path in paths] == [folder] * 2
    found = find_step_profile("a100", "mynet", precision="bf16")
    assert found.at(8).step_s == pytest.approx(0.03)
    assert find_step_profile("A100", signature="0123456789ab", precision="bf16") == found
    assert "mynet" in step_models()
    assert sorted(folder.iterdir()) == sorted(paths)


def test_one_s_own_profile_goes_before_the_bundled_one(tmp_path: Path) -> None:
    bundled = find_step_profile("A100", "resnet50")
    text = OWN.replace("mynet", "resnet50").replace("bf16", "fp32").replace('["0123456789ab"]', "[]")
    import_profile(write(tmp_path, text))
    own = find_step_profile("A100", "resnet50")
    assert own.source == "our own servers"
    assert find_step_profile("A100", signature=bundled.signatures[0]) == own
    assert find_step_profile("K80", "resnet50").source == bundled.source


def test_a_profile_that_is_imported_again_replaces_the_old_one(tmp_path: Path) -> None:
    import_profile(write(tmp_path, OWN))
    assert find_step_profile("A100", "mynet", precision="bf16").at(8).forward_s == 0.01
    import_profile(write(tmp_path, OWN.replace("8: [10, 20]", "8: [11, 20]")))
    assert find_step_profile("A100", "mynet", precision="bf16").at(8).forward_s == 0.011


def test_steps_are_imported_from_a_file_with_all_parts(tmp_path: Path) -> None:
    text = "models:\n  mynet:\n    memory_mib: {8: 100}\n    steps: [{gpus: {a100: {steps: {8: [10, 20]}}}}]\n"
    assert [path.name for path in import_profile(write(tmp_path, text))] == ["mynet@A100-fp32.yaml"]
    assert find_step_profile("A100", "mynet").at(8).step_s == pytest.approx(0.03)


def test_a_gpu_that_gpuyard_does_not_know_may_have_a_profile(tmp_path: Path) -> None:
    import_profile(write(tmp_path, OWN.replace("V100", "Prototype-7")))
    assert find_step_profile("Prototype-7", "mynet", precision="bf16").gpu == "Prototype-7"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model: mynet\n", "", "field model: is missing"),
        ("model: mynet", "model: ../mynet", "field model: '../mynet' must begin with a letter or digit"),
        ("bf16", "fp12", "field precision: 'fp12' input should be 'fp64', 'fp32'"),
        ("[10, 20]", "[10]", "field gpus.A100.steps.8: [10] must be [forward_ms, backward_ms] or"),
        ("[10, 20]", "[10, -20]", "field gpus.A100.steps.8.1: -20 input should be greater than 0"),
        ("[10, 20]", "[10, .nan]", "field gpus.A100.steps.8.1: nan input should be a finite number"),
        ("300.5, 100", "100, 300.5", "has more memory after the step than at its peak"),
        ("8: [10, 20]", "0: [10, 20]", "input should be greater than or equal to 1"),
        ("8: [10, 20]", "1: [10, 20]", "row 12: '1' stands twice"),
        ("predicted: [64]", "predicted: [63]", "predicted names batch 63, which is not one of the steps"),
        ('["0123456789ab"]', '["xyz"]', "field signatures.0: 'xyz' must be the 12 digits"),
        ("optimizer:", "optimiser:", "field optimiser: 'optimiser' is not a key of a step profile file"),
        (OWN, "- 1", "input should be a valid dictionary"),
        (OWN, "models: {}", "field models: dictionary should have at least 1 item"),
        (OWN, "models: {mynet: {memory_mib: {8: 100}}}", "field models: has no steps to import"),
    ],
)
def test_broken_files_are_refused_and_leave_nothing(
    tmp_path: Path, folder: Path, old: str, new: str, message: str
) -> None:
    assert old in OWN
    with pytest.raises(InputError) as caught:
        import_profile(write(tmp_path, OWN.replace(old, new)))
    assert str(caught.value).startswith(str(tmp_path / "mine.yaml"))
    assert message in str(caught.value)
    assert not folder.exists()


def test_missing_files_and_folders_that_cannot_be_written(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError, match="cannot be read as a step profile file"):
        import_profile(tmp_path / "none.yaml")
    folder.write_text("a file where the folder should be")
    with pytest.raises(InputError, match="cannot be written"):
        import_profile(write(tmp_path, OWN))


def test_a_broken_file_in_the_folder_is_named(folder: Path) -> None:
    folder.mkdir()
    (folder / "broken.yaml").write_text("model: [")
    with pytest.raises(InputError, match=r"own/broken\.yaml: is not YAML"):
        find_step_profile("V100", "resnet50")


def test_the_folder_is_in_the_home_unless_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GPUYARD_PROFILES")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_folder() == tmp_path / ".local" / "share" / "gpuyard" / "profiles"

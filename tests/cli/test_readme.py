"""Every command and snippet of the README works as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def shell(script: str, cwd: Path) -> str:
    found_first = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-e", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=found_first, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_starts_with_make_demo_and_make_test() -> None:
    first = blocks("sh")[0].splitlines()
    assert [line.split("#")[0].strip() for line in first] == ["make demo", "make test"]


def test_the_commands_run_in_the_order_they_stand(tmp_path: Path) -> None:
    for script in blocks("sh")[1:]:
        shell(script, tmp_path)
    assert (tmp_path / "report" / "report.html").is_file()


def test_the_study_sweeps(tmp_path: Path) -> None:
    (study,) = blocks("yaml")
    (tmp_path / "study.yaml").write_text(study)
    assert shell("gpuyard sweep study.yaml --format csv", tmp_path).count("\n") == 10


@pytest.mark.parametrize("snippet", blocks("python"))
def test_the_python_runs(tmp_path: Path, snippet: str) -> None:
    (tmp_path / "snippet.py").write_text(snippet)
    assert float(shell("python snippet.py", tmp_path)) > 0
    assert (tmp_path / "runs" / "mine" / "run.json").is_file()

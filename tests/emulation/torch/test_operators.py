"""Seven hundred operators do on an emulated GPU what they do on the host, with --compute to the same values."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.emulation.torch.conftest import emulated

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("expecttest", reason="torch's list of operators needs the package expecttest")


@pytest.mark.parametrize("mode", ["shapes", "values"])
def test_every_operator(mode: str) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("operators.py")), mode],
        env=emulated(clock="device", compute="1" if mode == "values" else "0"),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["tried"] > 600
    assert found["failed"] == {}

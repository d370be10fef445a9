"""`gpuyard decide`: what is wrong with its options is one line that names the option or its file."""

from pathlib import Path

import pytest
from tests.docs.pages import ROOT

from gpuyard.cli import main

SNAPSHOT = str(ROOT / "examples" / "snapshot.json")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--profiles", "none.yaml"], "error: none.yaml: cannot be read as a profile file"),
        (["--placement", "nope"], "error: field placement: 'nope' is not a placement"),
        (["--placement", "none.py:Near"], "error: none.py, field placement: 'none.py:Near' no such file"),
        (["--starvation", "0"], "error: field starvation: 0.0 must be above 0"),
        (["--starvation", "soon"], "error: field starvation: 'soon' is not a number with a unit"),
        (["--policy", "fifo"], "error: field policy: 'fifo' is not ORDER+ALLOCATE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_one_line(
    args: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["decide", SNAPSHOT, *args])
    told = capsys.readouterr()
    assert end.value.code == 2
    assert told.out == ""
    assert told.err.startswith(says)
    assert told.err.count("\n") == 1

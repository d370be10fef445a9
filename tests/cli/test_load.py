"""`gpuyard load`: what it prints, its exit codes, and one line about whatever is wrong."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.serving.load.v2_server import Answer, serving

from gpuyard.cli import main
from gpuyard.results import load_run

PLAN = "2\n7,50,108,\n9,50,142,\n"


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["load", *map(str, args)])
    told = capsys.readouterr()
    return int(end.value.code or 0), told.out, told.err


def second_fails(number: int, _model: str) -> Answer:
    return 503 if number % 2 else 200


def test_figures_as_a_table_and_what_it_does_not_show(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(answer=second_fails) as server:
        code, out, err = run(
            capsys, server.url, "--model", "a", "--rate", 100, "--slo", 1e9, "--load", "constant", "--seconds", 0.2,
            "--check",
        )  # fmt: skip
    assert code == 0
    assert "violation" in out
    assert "50.00" in out
    assert "a: 10 503" in err
    assert "the server's own statistics agree" in err


def test_figures_for_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_text("time_s,service\n0,a\n0.1,b\n0.1,b\n9,a\n")
    load = ("--load", "file", "--trace", tmp_path / "requests.csv", "--seconds", 1)
    with serving() as server:
        code, out, _ = run(
            capsys, server.url, *load, "--model", "a", "--model", "b", "--slo", 1e9, "--slo", 1e-6,
            "--format", "json", "--clients", 2,
        )  # fmt: skip
    rows = {row["model"]: row for row in json.loads(out)}
    assert code == 0
    assert (rows["a"]["within_slo"], rows["b"]["late"], rows["all"]["sent"]) == (1, 2, 3)


def test_services_and_rates_of_a_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "tasks.csv").write_text(PLAN)
    with pytest.raises(SystemExit):
        main(["plan", str(tmp_path / "tasks.csv"), "--format", "json"])
    (tmp_path / "plan.json").write_text(capsys.readouterr().out)
    with serving(models=("resnet50", "vgg16")) as server:
        code, out, _ = run(
            capsys, server.url, "--plan", tmp_path / "plan.json", "--load", "constant", "--seconds", 0.2, "--scale", 2,
            "--format", "csv",
        )  # fmt: skip
    assert code == 0
    assert [line.split(",")[:3] for line in out.splitlines()[1:]] == [
        ["resnet50", "108.0", "20"], ["vgg16", "142.0", "20"], ["all", "", "40"],
    ]  # fmt: skip


def test_a_server_that_cannot_be_reached_ends_with_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with serving() as server:
        gone = server.url
    code, out, err = run(capsys, gone, "--model", "a", "--rate", 1, "--out", tmp_path / "run")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {gone} cannot be reached")
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_gone_at_the_end_keeps_its_figures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def last_to_be_let_in(_number: int, _model: str) -> Answer:
        server.server.close()
        return 200

    with serving(answer=last_to_be_let_in) as server:
        code, out, err = run(
            capsys, server.url, "--model", "a", "--rate", 100, "--load", "constant", "--seconds", 0.1,
            "--connections", 1, "--check", "--out", tmp_path / "run", "--format", "json",
        )  # fmt: skip
    assert (code, json.loads(out)[0]["answered"]) == (1, 10)
    assert f"error: the check was impossible: {server.url} cannot be reached" in err
    assert load_run(tmp_path / "run").summary["requests"] == 10


@pytest.mark.parametrize("url", ["http://[::1", "ftp://127.0.0.1", "http://", "http://a:b"])
def test_what_is_no_url_is_one_line(capsys: pytest.CaptureFixture[str], url: str) -> None:
    code, _, err = run(capsys, url, "--model", "a", "--rate", 1)
    assert (code, err.count("\n")) == (2, 1)
    assert f"field url: '{url}' " in err


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        ((), "is missing: name a --plan, or a --model"),
        (("--model", "a"), "is missing: name a --plan, or a --model and its --rate"),
        (("--model", "a", "--rate", "1", "--rate", "2"), "must be given once, or once for each of the 1 models"),
        (("--model", "a", "--model", "a", "--rate", "1"), "'a' stands twice"),
        (("--model", "a", "--rate", "-1"), "rate of a"),
        (("--model", "a", "--rate", "1e9", "--seconds", "1"), "1000000000 requests are too many: at most 50,000,000"),
        (("--model", "a", "--rate", "1", "--seconds", "0"), "seconds"),
        (("--model", "a", "--rate", "1", "--slo", "1e10"), "field slo: 10000000000.0 is beyond 1e+09"),
        (("--model", "a", "--rate", "1", "--slo", "0"), "slo"),
        (("--model", "a", "--rate", "1", "--load", "steady"), "is not a kind of load"),
        (("--model", "a", "--rate", "1", "--load", "trace"), "name it with --trace"),
        (("--model", "a", "--rate", "1", "--clients", "0"), "clients"),
        (("--plan", "absent.json"), "absent.json"),
        (("--plan", "absent.json", "--rate", "1"), "leave out --model, --rate and --slo"),
    ],
)
def test_wrong_input_ends_with_2_and_one_line(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], rule: str
) -> None:
    with serving() as server:
        code, out, err = run(capsys, server.url, *args)
        assert not server.story.came
    assert (code, out) == (2, "")
    assert rule in err
    assert err.count("\n") == 1


def test_ctrl_c_reports_what_was_done() -> None:
    with serving() as server:
        command = [sys.executable, "-m", "gpuyard", "load", server.url, "--model", "a", "--rate", "100"]
        process = subprocess.Popen(
            [*command, "--seconds", "3600", "--format", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while len(server.story.came) < 5 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    [row] = json.loads(out)
    assert 5 <= row["sent"] == row["answered"] + row["refused"] + row["failed"] == len(server.story.came)
    assert "interrupted: after" in err

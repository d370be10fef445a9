"""`gpuyard smi` and what it exports."""

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import urllib.request
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.emulation.monitors.conftest import GIB, Yard
from tests.emulation.monitors.job import CONTEXT, SLOT

from gpuyard.cli import load_command
from gpuyard.cli.gauges import picture
from gpuyard.core.errors import InputError
from gpuyard.emulation.exporter import is_local, parse_address, serve
from gpuyard.emulation.monitor import GpuReading, NodeReading, ProcessReading, read_live
from gpuyard.policies.timeshare import TimeSlice

HOURS = 10_000.0


def smi(*arguments: str) -> str:
    """Run the command as the command line does, and return what it prints to stdout."""
    with redirect_stdout(io.StringIO()) as printed:
        load_command("smi")(list(arguments), standalone_mode=False)
    return printed.getvalue()


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without an emulated node."""
    monkeypatch.setenv("GPUYARD_SHM", str(tmp_path))


@pytest.mark.usefixtures("nobody")
def test_without_a_node_it_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert smi() == ""
    said = capsys.readouterr().err
    assert said.startswith("No emulated GPU is in use. To start one: gpuyard emulate ")
    assert said.count("\n") == 1
    assert json.loads(smi("--format", "json")) == []
    assert smi("--format", "csv").startswith("node,index,key,name,uuid,memory_used_bytes,")


def test_json_holds_nodes_with_gpus_with_processes(yard: Yard) -> None:
    job = yard.start(1, 2, HOURS)
    (node,) = json.loads(smi("--node", yard.node, "--format", "json"))
    idle, busy = node.pop("gpus")
    assert node == {"node": yard.node, "speed": 1.0, "sharing": str(TimeSlice())}
    assert (busy["index"], busy["key"], busy["name"]) == (1, "V100", SLOT.name)
    assert busy["memory_used_bytes"] == 2 * GIB + CONTEXT
    assert busy["memory_total_bytes"] == SLOT.memory_bytes
    assert (busy["utilisation"], busy["power_w"]) == pytest.approx((1, SLOT.max_watts), rel=1e-3)
    (process,) = busy["processes"]
    assert (process["pid"], process["memory_bytes"]) == (job.pid, 2 * GIB + CONTEXT)
    assert "job.py" in process["command"]
    assert (idle["memory_used_bytes"], idle["utilisation"], idle["processes"]) == (0, 0, [])


def test_csv_has_a_row_for_each_gpu(yard: Yard) -> None:
    job = yard.start(0, 2)
    first, second = csv.DictReader(io.StringIO(smi("--node", yard.node, "--format", "csv")))
    assert (first["node"], first["index"], first["pids"]) == (yard.node, "0", f"[{job.pid}]")
    assert (second["index"], second["pids"]) == ("1", "[]")


def reading(**changes: Any) -> NodeReading:
    process = ProcessReading(4711, "python train.py", 12 * GIB, 0.5)
    values = {
        **{"index": 0, "key": "V100", "name": SLOT.name, "uuid": "GPU-0", "memory_used_bytes": 16 * GIB},
        **{"memory_total_bytes": 32 * GIB, "utilisation": 0.5, "temperature_c": 54.0, "power_w": 140.0},
        **{"power_limit_w": 250.0, "processes": (process,)},
    }
    return NodeReading("two", 1.0, "time-slice:quantum=0.002s", (GpuReading(**{**values, **changes}),))


def lines(node: NodeReading, width: int) -> list[str]:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(picture([node], width))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_table_has_a_row_with_two_bars_for_each_gpu_and_processes_below() -> None:
    drawn = lines(reading(), 120)
    assert drawn[0] == "Node two, sharing time-slice"
    gpu = next(line for line in drawn if SLOT.name in line)
    assert gpu.count("██████░░░░░░") == 2
    assert all(text in gpu for text in ("16.0 / 32.0 GiB", "50%", "140 / 250 W", "54 °C"))
    assert drawn[-1].split() == ["0", "4711", "12.0", "GiB", "50%", "python", "train.py"]
    assert lines(reading(processes=()), 120)[-1] == "No process uses them."


def test_on_a_narrow_terminal_bars_give_way_to_figures() -> None:
    drawn = lines(reading(name="NVIDIA A100-SXM4-80GB"), 80)
    gpu = next(line for line in drawn if "SXM4" in line)
    assert "█" not in gpu
    assert "…" not in gpu
    assert all(text in gpu for text in ("16.0 / 32.0 GiB", "50%", "140 / 250 W", "54 °C"))


def test_a_wrong_node_is_told_the_nearest(yard: Yard) -> None:
    yard.start(0)
    with pytest.raises(InputError, match=rf"not a live node. Did you mean '{yard.node}'"):
        smi("--node", yard.node + "x")


@pytest.mark.parametrize("arguments", [("--live",), ("--live", "--format", "json"), ("--live", "--every", "0")])
def test_live_needs_a_terminal_and_time_to_look(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"draws a table on a terminal|is less than 0.1 s"):
        smi(*arguments)


def test_live_looks_again_until_it_is_interrupted(yard: Yard) -> None:
    yard.start(0, 2)
    terminal, inside = pty.openpty()
    arguments = ["--live", "--node", yard.node, "--every", "0.1"]
    code = f"from gpuyard.cli import load_command; load_command('smi')({arguments})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=inside, stderr=inside) as process:
        os.close(inside)
        seen = b""
        while seen.count(SLOT.name.encode()) < 6:  # two GPUs, three looks
            seen += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # that is how a terminal ends
            while rest := os.read(terminal, 4096):
                seen += rest
        assert process.wait(timeout=900) == 0
    os.close(terminal)
    assert b"Traceback" not in seen


def test_prometheus_gets_the_same_figures(yard: Yard) -> None:
    job = yard.start(0, 2, HOURS)
    with serve("0", yard.node) as url:
        assert url.startswith("http://127.0.0.1:")
        text = urllib.request.urlopen(url, timeout=900).read().decode()
    (node,) = read_live(yard.node)
    gpu = node.gpus[0]
    where = {"node": yard.node, "gpu": "0", "uuid": gpu.uuid, "kind": "V100"}
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def value(name: str, **more: str) -> float:
        return samples[name, *sorted({**where, **more}.items())]

    assert value("gpuyard_gpu_memory_used_bytes") == gpu.memory_used_bytes == 2 * GIB + CONTEXT
    assert value("gpuyard_gpu_memory_total_bytes") == gpu.memory_total_bytes
    assert value("gpuyard_gpu_utilization_ratio") == pytest.approx(1, abs=0.01)
    assert value("gpuyard_gpu_power_draw_watts") == pytest.approx(gpu.power_w, abs=3)
    assert value("gpuyard_gpu_processes") == 1
    assert value("gpuyard_process_memory_used_bytes", pid=str(job.pid)) == 2 * GIB + CONTEXT


def test_only_this_machine_is_answered_unless_told_otherwise() -> None:
    assert parse_address("9400") == ("127.0.0.1", 9400)
    assert parse_address("[::1]:9400") == ("::1", 9400)
    assert parse_address("0.0.0.0:9400") == ("0.0.0.0", 9400)
    assert [is_local(text) for text in ("9400", "localhost:1", "[::1]:1", "0.0.0.0:1", "[::]:1")] == [
        *(True, True, True),
        *(False, False),
    ]


@pytest.mark.parametrize("address", ["", "abc", "70000", "host:", "1.2.3.4"])
def test_a_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=r"is not \[HOST:\]PORT"):
        smi("--export", address)


def test_a_port_in_use_is_named() -> None:
    with serve("0") as url:
        port = url.removesuffix("/metrics").rpartition(":")[2]
        with pytest.raises(InputError, match=f"'{port}' cannot be listened on: Address already in use"):
            smi("--export", port)


def test_without_the_extra_it_says_which_one() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from gpuyard.cli.smi import smi\n"
        "from gpuyard.core.errors import MissingExtraError\n"
        "try: smi(export='0')\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "gpuyard smi --export needs the 'monitor' extra: pip install 'gpuyard[monitor]'\n"

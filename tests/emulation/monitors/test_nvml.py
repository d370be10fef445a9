"""Programs written for NVML see the emulated GPUs, and what they see is true."""

import importlib.util
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest
from tests.emulation.monitors import programs
from tests.emulation.monitors.conftest import GIB, Yard
from tests.emulation.monitors.job import CONTEXT, SLOT
from tests.emulation.node.places import of_client, of_gpu, spoil
from tests.native.compiling import compile_strictly

from gpuyard.emulation import nvml
from gpuyard.emulation.monitor import read_live

HOURS = 10_000.0
"""Work for so long that the GPU is busy all the time."""


def test_what_nvml_says_is_what_smi_says(yard: Yard) -> None:
    first, second = yard.start(0, 2, HOURS), yard.start(0, 1, HOURS)
    idle = yard.start(1, 0.5)
    busy_gpu, idle_gpu = yard.ask(programs.NVML)
    (reading,) = read_live(yard.node)

    for told, gpu in zip((busy_gpu, idle_gpu), reading.gpus, strict=True):
        assert (told["name"], told["uuid"]) == (gpu.name, gpu.uuid)
        assert (told["total"], told["used"]) == (gpu.memory_total_bytes, gpu.memory_used_bytes)
        assert told["busy"] == pytest.approx(100 * gpu.utilisation, abs=1)
        assert told["watts"] == pytest.approx(gpu.power_w, abs=3)
        assert told["limit"] == gpu.power_limit_w
        assert told["celsius"] == pytest.approx(gpu.temperature_c, abs=1)
        assert told["processes"] == {str(process.pid): process.memory_bytes for process in gpu.processes}
        assert told["shares"].keys() == told["processes"].keys()

    assert busy_gpu["processes"] == {str(first.pid): 2 * GIB + CONTEXT, str(second.pid): GIB + CONTEXT}
    assert busy_gpu["used"] == 3 * GIB + 2 * CONTEXT
    assert busy_gpu["busy"] >= 99
    assert all(share == pytest.approx(50, abs=2) for share in busy_gpu["shares"].values())
    assert idle_gpu["processes"] == {str(idle.pid): GIB // 2 + CONTEXT}
    assert (idle_gpu["busy"], idle_gpu["watts"], idle_gpu["celsius"]) == (0, SLOT.idle_watts, 34)


def test_gpustat_shows_them(yard: Yard) -> None:
    job = yard.start(0, 2, HOURS)
    gpu, other = yard.ask(programs.GPUSTAT)["gpus"]
    assert (gpu["name"], gpu["memory.total"]) == (SLOT.name, SLOT.memory_bytes // 2**20)
    assert gpu["memory.used"] == (2 * GIB + CONTEXT) // 2**20
    assert gpu["utilization.gpu"] == 100
    assert (gpu["power.draw"], gpu["enforced.power.limit"]) == (250, 250)
    assert [process["pid"] for process in gpu["processes"]] == [job.pid]
    assert (other["memory.used"], other["utilization.gpu"], other["processes"]) == (0, 0, [])


def test_nvitop_shows_them(yard: Yard) -> None:
    job = yard.start(1, 2, HOURS)
    other, gpu = yard.ask(programs.NVITOP)
    assert (gpu["name"], gpu["capability"]) == (SLOT.name, [7, 0])
    assert (gpu["used"], gpu["total"]) == (2 * GIB + CONTEXT, SLOT.memory_bytes)
    assert (gpu["busy"], gpu["celsius"]) == (100, 74)
    assert gpu["processes"] == {str(job.pid): 2 * GIB + CONTEXT}
    assert (other["used"], other["busy"], other["processes"]) == (0, 0, {})


def test_torch_counts_them_through_a_library_loaded_beforehand(yard: Yard) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if nvml.library_path() is None:
        pytest.skip("the library was not built into the package")
    yard.start(0, 2)
    told = yard.ask(programs.TORCH, LD_LIBRARY_PATH="")
    (reading,) = read_live(yard.node)
    assert told == {
        "count": 2,
        "uuids": [gpu.uuid for gpu in reading.gpus],
        "used": reading.gpus[0].memory_used_bytes,
    }


def test_a_program_that_asks_about_itself_is_told_the_last_second(yard: Yard, host_time: dict[str, str]) -> None:
    """While it asks it queues nothing, so an answer about that moment would always be none."""
    busy, idle = yard.ask(programs.ASKS_ITSELF, [yard.node], **host_time)
    worked, *told = map(mean, zip(*busy, strict=True))
    assert worked == pytest.approx(50, abs=0.1)
    assert told == pytest.approx([worked] * 3, abs=1)
    assert idle == [0, 0, 0]


def test_torch_is_told_how_busy_it_keeps_the_gpu(yard: Yard, host_time: dict[str, str]) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if nvml.library_path() is None:
        pytest.skip("the library was not built into the package")
    emulate = ["-m", "gpuyard", "emulate", "--gpus", "V100", "--node", yard.node, "--quiet", "--", sys.executable]
    told = yard.run([*emulate, "-c", programs.TORCH_ASKS_ITSELF], LD_LIBRARY_PATH="", GPUYARD_NODE="", **host_time)
    worked, found = map(mean, zip(*told, strict=True))
    assert worked == pytest.approx(50, abs=1)
    assert found == pytest.approx(worked, abs=1)


def test_preloading_makes_the_library_known_by_its_name(yard: Yard) -> None:
    if nvml.library_path() is None:
        pytest.skip("the library was not built into the package")
    yard.start(0)
    before, count = yard.ask(programs.SAME_PROCESS, LD_LIBRARY_PATH="")
    assert before == "nothing" or shutil.which("nvidia-smi")
    assert count == 2


def test_a_killed_process_disappears(yard: Yard) -> None:
    stays, dies = yard.start(0), yard.start(0)
    with yard.watching(programs.WATCH) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline().split() == sorted([str(stays.pid), str(dies.pid)], key=int)
        dies.send_signal(signal.SIGKILL)
        assert watcher.stdout.readline().split() == [str(stays.pid)]
    (reading,) = read_live(yard.node)
    assert [process.pid for process in reading.gpus[0].processes] == [stays.pid]


def test_a_forked_process_may_ask_too(yard: Yard) -> None:
    yard.start(0)
    assert yard.ask(programs.FORKS) == [3, 3], "two GPUs and one process, for parent and child"


def test_a_watcher_goes_on_when_the_node_ends_and_comes_back(yard: Yard) -> None:
    before = yard.start(0)
    with yard.watching(programs.WATCH) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline().split() == [str(before.pid)]
        before.kill()
        assert watcher.stdout.readline().split() == []
        after = yard.start(0)
        assert watcher.stdout.readline().split() == [str(after.pid)]


def test_energy_is_power_over_time(yard: Yard, host_time: dict[str, str]) -> None:
    idle, busy = yard.ask(programs.ENERGY_OF_ITSELF, [yard.node], **host_time)
    assert idle == pytest.approx(30, rel=1e-3)
    assert busy == pytest.approx(250, rel=1e-3)


def test_visible_devices_do_not_concern_nvml(yard: Yard) -> None:
    yard.start(0)
    assert len(yard.ask(programs.NVML, CUDA_VISIBLE_DEVICES="1")) == 2


def test_the_node_is_the_one_that_is_named_or_else_the_one_of_these_gpus(yard: Yard) -> None:
    yard.start(0)
    assert len(yard.ask(programs.NVML, GPUYARD_NODE="", GPUYARD_GPUS=yard.node)) == 2
    assert len(yard.ask(programs.NVML, GPUYARD_GPUS="another")) == 2
    assert yard.ask(programs.FAILS, GPUYARD_NODE="another", GPUYARD_GPUS=yard.node) == "NVMLError_DriverNotLoaded"


def test_a_node_without_a_process_is_no_driver(yard: Yard) -> None:
    assert yard.ask(programs.FAILS) == "NVMLError_DriverNotLoaded"
    yard.start(0).kill()
    yard.processes[0].wait()
    assert yard.ask(programs.FAILS) == "NVMLError_DriverNotLoaded"


def test_the_only_node_needs_no_name(yard: Yard, tmp_path: Path) -> None:
    """In a /dev/shm of its own, as other tests have nodes too."""
    program = tmp_path / "alone.py"
    program.write_text(programs.ALONE)
    job = Path(__file__).with_name("job.py")
    inside = f'mount -t tmpfs none /dev/shm && exec "{sys.executable}" "{program}" "{job}"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", inside],
        env=yard.environment(GPUYARD_NODE=""),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "none": "NVMLError_DriverNotLoaded",
        "one": 2,
        "two": "NVMLError_DriverNotLoaded",
    }


def test_every_name_that_nvidia_ml_py_looks_up_is_there(yard: Yard) -> None:
    count, missing = yard.ask(programs.NAMES)
    assert count > 300
    assert missing == []


def test_handles_structures_and_misuse(yard: Yard) -> None:
    """Each version of a structure is filled to its end and no further; nonsense is refused."""
    yard.start(0, 1)
    yard.ask(programs.CONTRACT)


def test_numbers_that_make_no_sense_do_no_harm(yard: Yard) -> None:
    """A process may be killed in the middle of whatever it writes."""
    yard.start(0, 1, HOURS)
    nonsense = {
        "tail": math.nan,
        "busy": math.inf,
        "breakpoint_count": math.nan,
        "sample_count": math.nan,
        "connected_at": -math.inf,
    }
    for name, value in nonsense.items():
        spoil(yard.node, of_client(name), value)
    spoil(yard.node, of_gpu("retired_busy"), math.nan)
    gpu, _ = yard.ask(programs.NVML)
    assert gpu["used"] == GIB + CONTEXT
    assert 0 <= gpu["busy"] <= 100
    assert yard.ask(programs.ENERGY) >= 0


def test_no_question_breaks_a_rule_of_c(yard: Yard, tmp_path: Path) -> None:
    """Every question about one GPU, to a library that checks each access to memory."""
    compiler = os.environ.get("CC") or "cc"
    runtime = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    if not Path(runtime.stdout.strip()).is_file():
        pytest.skip(f"{compiler} has no address sanitizer")
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    checked = compile_strictly(nvml.LIBRARY, tmp_path, flags)
    yard.start(0, 1, HOURS)
    strict = {"LD_LIBRARY_PATH": str(checked.parent), "LD_PRELOAD": runtime.stdout.strip()}
    answers = yard.ask(programs.EVERYTHING, **strict, ASAN_OPTIONS="detect_leaks=0")
    assert answers["nvmlDeviceGetBrand"] == "2"
    assert answers["nvmlDeviceGetArchitecture"] == "5"
    assert answers["nvmlDeviceGetMigMode"] == answers["nvmlDeviceGetEccMode"] == "NVMLError_NotSupported"
    assert set(answers.values()) & {"NVMLError_FunctionNotFound", "NVMLError_Unknown"} == set()

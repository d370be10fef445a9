"""Programs that watch GPUs through the packages that people use; each prints JSON. They know nothing of gpuyard."""

NVML = """
import json, pynvml as N

N.nvmlInit()
found = []
for index in range(N.nvmlDeviceGetCount()):
    gpu = N.nvmlDeviceGetHandleByIndex(index)
    memory = N.nvmlDeviceGetMemoryInfo(gpu)
    newer = N.nvmlDeviceGetMemoryInfo(gpu, version=N.nvmlMemory_v2)
    assert (memory.total, memory.free, memory.used) == (newer.total, newer.free, newer.used)
    assert memory.free + memory.used == memory.total
    rates = N.nvmlDeviceGetUtilizationRates(gpu)
    try:
        samples = {sample.pid: sample.smUtil for sample in N.nvmlDeviceGetProcessUtilization(gpu, 0)}
        again = {sample.pid: sample.smUtil for sample in N.nvmlDeviceGetProcessesUtilizationInfo(gpu, 0)}
        assert samples == again
    except N.NVMLError_NotFound:
        samples = {}
    found.append({
        "name": N.nvmlDeviceGetName(gpu),
        "uuid": N.nvmlDeviceGetUUID(gpu),
        "total": memory.total,
        "used": memory.used,
        "busy": rates.gpu,
        "watts": N.nvmlDeviceGetPowerUsage(gpu) / 1000,
        "limit": N.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
        "celsius": N.nvmlDeviceGetTemperature(gpu, N.NVML_TEMPERATURE_GPU),
        "processes": {p.pid: p.usedGpuMemory for p in N.nvmlDeviceGetComputeRunningProcesses(gpu)},
        "shares": samples,
    })
print(json.dumps(found))
"""

GPUSTAT = """
import io, gpustat

text = io.StringIO()
gpustat.new_query().print_json(text)
print(text.getvalue().replace(chr(10), " "))
"""

NVITOP = """
import json, nvitop

print(json.dumps([{
    "name": gpu.name(),
    "used": gpu.memory_used(),
    "total": gpu.memory_total(),
    "busy": gpu.gpu_utilization(),
    "celsius": gpu.temperature(),
    "capability": gpu.cuda_compute_capability(),
    "processes": {pid: process.gpu_memory() for pid, process in gpu.processes().items()},
} for gpu in nvitop.Device.all()]))
"""

TORCH = """
import json, torch
from gpuyard.emulation import nvml

assert nvml.preload()
pynvml = torch.cuda.pynvml
handle = pynvml.nvmlInit() or pynvml.nvmlDeviceGetHandleByIndex(0)
print(json.dumps({
    "count": torch.cuda._raw_device_count_nvml(),
    "uuids": torch.cuda._raw_device_uuid_nvml(),
    "used": pynvml.nvmlDeviceGetMemoryInfo(handle).used,
}))
"""

ASKS_ITSELF = """
import json, sys, time, pynvml as N
from gpuyard.emulation.monitor import read_live
from gpuyard.emulation.node import GpuSlot, Node

node = Node.open(sys.argv[1], [GpuSlot("V100", "Tesla V100-PCIE-32GB", 2**35)])
client, clock = node.connect(0), node.clock
N.nvmlInit()
gpu = N.nvmlDeviceGetHandleByIndex(0)


def told():
    return [
        N.nvmlDeviceGetUtilizationRates(gpu).gpu,
        N.nvmlDeviceGetProcessUtilization(gpu, 0)[0].smUtil,
        100 * read_live(sys.argv[1])[0].gpus[0].utilisation,
    ]


found, begins = [], []
start = now = clock.now()
while now < start + 2:
    begins.append(now)
    client.submit(now + 0.05, now, 0.05 * len(begins))
    clock.wait_until(now + 0.1)
    now = clock.now()
    if now > start + 1:
        worked = sum(max(0, 0.05 - max(0, now - 1 - begin)) for begin in begins)
        found.append([100 * worked, *told()])
time.sleep(1.1)
print(json.dumps([found, told()]))
"""

TORCH_ASKS_ITSELF = """
import json, time, torch

matrix = torch.empty(4096, 4096, device="cuda")
before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
found, begins = [], []
start = now = time.monotonic()
while now < start + 2:
    begins.append(now)
    before.record()
    matrix @ matrix
    after.record()
    torch.cuda.synchronize()
    seconds = before.elapsed_time(after) / 1000
    time.sleep(seconds)
    now = time.monotonic()
    if now > start + 1:
        worked = sum(max(0, seconds - max(0, now - 1 - begin)) for begin in begins)
        found.append([100 * worked, torch.cuda.utilization()])
print(json.dumps(found))
"""

SAME_PROCESS = """
import json, pynvml as N
from gpuyard.emulation import nvml

before = None
try:
    N.nvmlInit()
except N.NVMLError_LibraryNotFound:
    before = "nothing"
nvml.preload()
N.nvmlInit()
print(json.dumps([before, N.nvmlDeviceGetCount()]))
"""

FORKS = """
import json, os, pynvml as N

N.nvmlInit()
child = os.fork()
processes = N.nvmlDeviceGetComputeRunningProcesses(N.nvmlDeviceGetHandleByIndex(0))
if not child:
    os._exit(N.nvmlDeviceGetCount() + len(processes))
print(json.dumps([N.nvmlDeviceGetCount() + len(processes), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]))
"""

WATCH = """
import sys, time, pynvml as N

N.nvmlInit()
last = None
while True:
    gpu = N.nvmlDeviceGetHandleByIndex(0)
    pids = sorted(process.pid for process in N.nvmlDeviceGetComputeRunningProcesses(gpu))
    if pids != last:
        print(*pids, flush=True)
    last = pids
    time.sleep(0.01)
"""

ENERGY = """
import json, pynvml as N

N.nvmlInit()
gpu = N.nvmlDeviceGetHandleByIndex(0)
joules = N.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000
(field,) = N.nvmlDeviceGetFieldValues(gpu, [N.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION])
assert field.nvmlReturn == 0 and field.value.ullVal >= joules
print(json.dumps(joules))
"""

ENERGY_OF_ITSELF = """
import json, sys, time, pynvml as N
from gpuyard.emulation.node import GpuSlot, Node

node = Node.open(sys.argv[1], [GpuSlot("V100", "Tesla V100-PCIE-32GB", 2**35, idle_watts=30, max_watts=250)])
client, clock = node.connect(0), node.clock
N.nvmlInit()
gpu = N.nvmlDeviceGetHandleByIndex(0)


def watts(seconds):
    before = N.nvmlDeviceGetTotalEnergyConsumption(gpu)
    time.sleep(seconds)
    return (N.nvmlDeviceGetTotalEnergyConsumption(gpu) - before) / 1000 / seconds


idle = watts(10)
client.submit(clock.now() + 1000, clock.now(), 1000)
print(json.dumps([idle, watts(10)]))
"""

NAMES = """
import ctypes, json, pathlib, re, pynvml as N

wanted = set(re.findall(r'_nvmlGetFunctionPointer\\("(\\w+)"', pathlib.Path(N.__file__).read_text()))
library = ctypes.CDLL("libnvidia-ml.so.1")
print(json.dumps([len(wanted), [name for name in sorted(wanted) if not hasattr(library, name)]]))
"""

EVERYTHING = """
import inspect, json, pynvml as N

N.nvmlInit()
gpu = N.nvmlDeviceGetHandleByIndex(0)
answers = {}
for name, function in inspect.getmembers(N, inspect.isfunction):
    if name.startswith("nvmlDeviceGet") and len(inspect.signature(function).parameters) == 1 and "Handle" not in name:
        try:
            answers[name] = str(function(gpu))
        except N.NVMLError as error:
            answers[name] = type(error).__name__
for clock in range(4):
    for function in (N.nvmlDeviceGetClockInfo, N.nvmlDeviceGetMaxClockInfo, N.nvmlDeviceGetApplicationsClock):
        try:
            function(gpu, clock)
        except N.NVMLError_NotSupported:
            assert clock == N.NVML_CLOCK_VIDEO
print(json.dumps(answers))
"""

FAILS = """
import json, pynvml as N

try:
    N.nvmlInit()
except N.NVMLError as error:
    print(json.dumps(type(error).__name__))
"""

ALONE = """
import json, subprocess, sys, pynvml as N


def start(node):
    job = subprocess.Popen([sys.executable, sys.argv[1], node, "0", "0", "0"], stdout=subprocess.PIPE, text=True)
    job.stdout.readline()
    return job


def look():
    try:
        N.nvmlInit()
    except N.NVMLError as error:
        return type(error).__name__
    count = N.nvmlDeviceGetCount()
    N.nvmlShutdown()
    return count


found, jobs = {"none": look()}, []
for name in ("one", "two"):
    jobs.append(start(name))
    found[name] = look()
print(json.dumps(found))
for job in jobs:
    job.kill()
"""

CONTRACT = """
import ctypes, json, pynvml as N

library = ctypes.CDLL("libnvidia-ml.so.1")
count = ctypes.c_uint()
assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == N.NVML_ERROR_UNINITIALIZED
assert library.nvmlShutdown() == N.NVML_ERROR_UNINITIALIZED
assert library.nvmlInit() == library.nvmlInit_v2() == N.NVML_SUCCESS
assert library.nvmlShutdown() == N.NVML_SUCCESS
assert library.nvmlDeviceGetCount(ctypes.byref(count)) == N.NVML_SUCCESS and count.value == 2

N.nvmlInit()
gpu, other = (N.nvmlDeviceGetHandleByIndex(index) for index in range(2))
for same in (
    N.nvmlDeviceGetHandleByUUID(N.nvmlDeviceGetUUID(gpu)),
    N.nvmlDeviceGetHandleBySerial(N.nvmlDeviceGetSerial(gpu)),
    N.nvmlDeviceGetHandleByPciBusId(N.nvmlDeviceGetPciInfo(gpu).busId),
    N.nvmlDeviceGetHandleByPciBusId("0000:01:00.0"),
    N.nvmlDeviceGetHandleByPciBusId("01:00.0"),
    N.nvmlDeviceGetHandleByUUIDV(N.nvmlDeviceGetUUID(gpu).encode(), N.NVML_UUID_TYPE_ASCII),
):
    assert N.nvmlDeviceGetIndex(same) == 0
assert N.nvmlDeviceGetTopologyCommonAncestor(gpu, gpu) == N.NVML_TOPOLOGY_INTERNAL
assert N.nvmlDeviceGetTopologyCommonAncestor(gpu, other) == N.NVML_TOPOLOGY_HOSTBRIDGE
assert sum(word.bit_count() for word in N.nvmlDeviceGetCpuAffinity(gpu, 16)) >= 1


def refused(error, function, *arguments):
    try:
        function(*arguments)
    except N.NVMLError as found:
        assert found.value == error, (function.__name__, found)
    else:
        raise AssertionError(function.__name__)


refused(N.NVML_ERROR_INVALID_ARGUMENT, N.nvmlDeviceGetHandleByIndex, 2)
refused(N.NVML_ERROR_NOT_FOUND, N.nvmlDeviceGetHandleByUUID, "GPU-none")
refused(N.NVML_ERROR_NOT_FOUND, N.nvmlDeviceGetHandleByPciBusId, "rubbish")
refused(N.NVML_ERROR_INVALID_ARGUMENT, N.nvmlDeviceGetName, ctypes.c_void_p(1234))
refused(N.NVML_ERROR_INVALID_ARGUMENT, N.nvmlDeviceGetMemoryInfo, ctypes.c_void_p(None))
refused(N.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, N.nvmlDeviceGetMemoryInfo, gpu, 0x03000028)
refused(N.NVML_ERROR_INVALID_ARGUMENT, N.nvmlDeviceGetClockInfo, gpu, 99)
refused(N.NVML_ERROR_NOT_SUPPORTED, N.nvmlDeviceGetFanSpeed, gpu)
assert library.nvmlDeviceGetName(gpu, ctypes.create_string_buffer(4), 4) == N.NVML_ERROR_INSUFFICIENT_SIZE
assert library.nvmlDeviceGetMemoryInfo(gpu, None) == N.NVML_ERROR_INVALID_ARGUMENT
assert N.nvmlErrorString(N.NVML_ERROR_NOT_FOUND) == "Not Found"


def fill(name, size, *more):
    # The byte behind the structure must stay as it was; the last one inside, zero in all of these, must not.
    buffer = ctypes.create_string_buffer(bytes([170]) * (size + 1), size + 1)
    assert getattr(library, name)(gpu, *more, buffer) == N.NVML_SUCCESS, name
    assert buffer.raw[size] == 170 and buffer.raw[size - 1] != 170, name
    return buffer.raw


assert fill("nvmlDeviceGetPciInfo", 32)[:12] == b"0000:01:00.0"
assert fill("nvmlDeviceGetPciInfo_v2", 52)[:12] == b"0000:01:00.0"
assert fill("nvmlDeviceGetPciInfo_v3", 68)[36:52] == b"00000000:01:00.0"
one = ctypes.byref(ctypes.c_uint(1))
old = fill("nvmlDeviceGetComputeRunningProcesses", 16, one)
new = fill("nvmlDeviceGetComputeRunningProcesses_v2", 24, one)
assert old[:4] == new[:4] and old[8:16] == new[8:16]
none = ctypes.c_uint(5)
assert library.nvmlDeviceGetGraphicsRunningProcesses_v3(gpu, ctypes.byref(none), None) == N.NVML_SUCCESS
assert none.value == 0
(listed,) = N.nvmlDeviceGetRunningProcessDetailList(gpu, N.nvmlProcessDetailList_v1, N.NVML_PROCESS_MODE_COMPUTE)
assert listed.pid == int.from_bytes(old[:4], "little")
assert N.nvmlSystemGetProcessName(listed.pid).rpartition("/")[2].startswith("python")
print(json.dumps(None))
"""

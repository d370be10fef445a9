"""What the driver's sources and Python both say is the same."""

import ctypes
import runpy
import subprocess
import sys
from pathlib import Path

from tests.native.cuda.driver import Driver, settings

from gpuyard.native import build_script, find

CUDA = build_script().SOURCES / "cuda"


def test_the_gpu_kinds_are_those_that_python_knows() -> None:
    written = runpy.run_path(str(CUDA / "gpu_table.py"))
    assert written["c_header"]() == Path(written["TABLE"]).read_text(), "renew it: python native/cuda/gpu_table.py"


def test_every_function_of_the_driver_is_there_and_found_by_its_name(driver: Driver) -> None:
    names = [line.split() for line in (CUDA / "functions.txt").read_text().splitlines()]
    assert len(names) == len({name for name, _ in names}) == 637
    for name, since in names:
        here = ctypes.cast(getattr(driver.library, name), ctypes.c_void_p).value
        base = name.removesuffix("_ptsz").removesuffix("_ptds")
        base = base[:-3] if base[-3:-1] == "_v" else base
        found, status = ctypes.c_void_p(), ctypes.c_uint()
        flags = ctypes.c_uint64(2 if base != name and "_pt" in name else 0)
        driver.call("cuGetProcAddress_v2", base.encode(), ctypes.byref(found), int(since), flags, ctypes.byref(status))
        assert found.value == here, name


def test_what_is_not_supported_says_its_name_once_if_asked_to() -> None:
    program = f"""
import ctypes
library = ctypes.CDLL({str(find("libcuda.so.1"))!r})
print([library.cuTexObjectCreate() for _ in range(3)], library.cuArrayCreate_v2())
"""
    environment = settings(gpus="A100", trace="1")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[801, 801, 801] 801\n"
    assert done.stderr == "".join(
        f"gpuyard: libcuda: {name} is not supported\n" for name in ("cuTexObjectCreate", "cuArrayCreate_v2")
    )


def test_attributes_are_those_of_the_emulated_gpu_of_pytorch(driver: Driver) -> None:
    """cuda_api.py, get_device_properties: the same numbers under the driver's own names."""
    numbers = {
        1: 1024,
        8: 48 << 10,
        10: 32,
        16: 108,
        38: 6 << 20,
        39: 2048,
        75: 8,
        76: 0,
        81: 96 << 10,
        82: 65536,
        97: 96 << 10,
    }
    for attribute, want in numbers.items():
        told = ctypes.c_int()
        driver.call("cuDeviceGetAttribute", ctypes.byref(told), attribute, 0)
        assert told.value == want, attribute

"""Programs on libraries that nobody here wrote run on the emulated driver, and their numbers are right."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.native.cuda.driver import settings

from gpuyard.native import folder

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = Path(__file__).parent / "clients"


def run(program: Path, *packages: str, **given: str) -> str:
    """Run a program with the driver on its library path, and return what it prints."""
    for package in packages:
        try:
            there = importlib.util.find_spec(package) is not None
        except ModuleNotFoundError:
            there = False
        if not there:
            pytest.skip(f"{package} is not installed: pip install 'gpuyard[test-cuda]'")
    environment = settings(**{"gpus": "A100", "node": f"clients-{uuid.uuid4()}"} | given)
    environment |= {"PYTHONWARNINGS": "ignore", "LD_LIBRARY_PATH": str(folder()), "NUMBA_DISABLE_JIT": "0"}
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_cuda_bindings() -> None:
    assert (
        run(CLIENTS / "bindings.py", "cuda.bindings", clock="device", kernel_times="axpy=50")
        == "NVIDIA A100-SXM4-40GB\n"
    )


def test_cuda_core_with_nvrtc() -> None:
    assert run(CLIENTS / "core.py", "cuda.core", "nvidia") == "NVIDIA A100-SXM4-40GB\n"


def need_driver_linker() -> None:
    """numba links with nvJitLink if that is there, to machine code, which nothing here can run."""
    found = importlib.util.find_spec("nvidia")
    places = [] if found is None else list(found.submodule_search_locations or [])
    if any(list(Path(place).rglob("libnvJitLink.so*")) for place in places):
        pytest.skip("nvidia-nvjitlink is installed, which makes numba link to machine code (docs/cuda.md)")


def test_numba_kernels() -> None:
    need_driver_linker()
    assert run(CLIENTS / "numba_kernels.py", "numba_cuda", "nvidia").strip() == "NVIDIA A100-SXM4-40GB"


def test_numba_maths() -> None:
    need_driver_linker()
    assert len(run(CLIENTS / "numba_maths.py", "numba_cuda", "nvidia").splitlines()) == 2 * 31


def test_the_example_of_the_docs_prints_what_they_show() -> None:
    need_driver_linker()
    printed = run(ROOT / "examples" / "cuda" / "axpy.py", "numba_cuda", "nvidia", clock="device")
    assert f"python examples/cuda/axpy.py\n{printed}" in (ROOT / "docs" / "cuda.md").read_text()


KERNEL = """
__global__ void scale(float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * i;
}
"""

DRIVER_PROGRAM = """
#include <cuda.h>
#include <stdio.h>
#define OK(call) do { CUresult r = (call); if (r) { const char *s = 0; cuGetErrorName(r, &s); printf("%s: %s\\n", #call, s); return 1; } } while (0)
int main(int count, char **words) {
    CUcontext context; CUmodule module; CUfunction function; CUdeviceptr x; float back[1000], a = 3; int n = 1000;
    OK(cuInit(0)); OK(cuDevicePrimaryCtxRetain(&context, 0)); OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, words[count - 1])); OK(cuModuleGetFunction(&function, module, "_Z5scalePffi"));
    OK(cuMemAlloc(&x, sizeof back)); OK(cuMemsetD32(x, 0, 1000));
    void *arguments[] = {&x, &a, &n};
    OK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, 0, arguments, 0)); OK(cuMemcpyDtoH(back, x, sizeof back));
    printf("[%g, %g]\\n", back[1], back[999]);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("options", "told", "said"),
    [
        (["-gencode", "arch=compute_80,code=compute_80", "--no-compress"], [3, 2997], ""),
        (["-gencode", "arch=compute_80,code=[compute_80,sm_80]", "--no-compress"], [3, 2997], ""),
        (["-gencode", "arch=compute_80,code=sm_80", "--no-compress"], [0, 0], "machine code and no PTX"),
    ],
    ids=["ptx", "both", "machine-code"],
)
def test_what_nvcc_compiles(options: list[str], told: list[float], said: str, tmp_path: Path) -> None:
    """A program linked with libcuda, and a container with PTX; machine code takes its time and computes nothing."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc to compile with")
    (tmp_path / "kernel.cu").write_text(KERNEL)
    (tmp_path / "main.c").write_text(DRIVER_PROGRAM)
    subprocess.run([nvcc, "-fatbin", *options, "kernel.cu", "-o", "kernel.fatbin"], cwd=tmp_path, check=True)
    subprocess.run(
        [nvcc, "-cudart", "none", "main.c", "-o", "main", "-Xlinker", str(folder() / "libcuda.so.1")],
        cwd=tmp_path,
        check=True,
    )
    environment = settings(gpus="A100", clock="device") | {"LD_LIBRARY_PATH": str(folder())}
    done = subprocess.run(
        [tmp_path / "main", "kernel.fatbin"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, json.loads(done.stdout)) == (0, told), done.stderr
    assert said in done.stderr
    assert bool(said) == bool(done.stderr)


def test_without_gpus_the_driver_says_how_to_get_some() -> None:
    program = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    environment = settings() | {"LD_LIBRARY_PATH": str(folder())}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "100\n"
    assert (
        done.stderr == "gpuyard: libcuda: GPUYARD_GPUS is not set: there are no emulated GPUs; try GPUYARD_GPUS=A100\n"
    )
    assert "GPUYARD_GPUS" not in os.environ

"""cuda.core: NVIDIA's own Python on top of the driver, with NVRTC for C++."""

from ctypes import c_char
from math import erf

import numpy as np
from cuda.core import Device, EventOptions, LaunchConfig, Program, ProgramOptions, launch

SOURCE = """
template <typename T> __global__ void scale(T *x, T a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = a * i;
}
__device__ int counter = 40;
extern "C" __global__ void count(int *out) {
    __shared__ int seen[64];
    seen[threadIdx.x] = threadIdx.x;
    __syncthreads();
    atomicAdd(&counter, 1);
    __syncthreads();
    if (threadIdx.x == 0) out[0] = counter;
    out[1 + threadIdx.x] = __shfl_xor_sync(0xffffffffu, seen[63 - threadIdx.x], 1) + __popc(seen[threadIdx.x]);
}
extern "C" __global__ void mathematics(double *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = sin(x[i]) + exp(-x[i]) + pow(x[i], 1.5) + log1p(x[i]) + erf(x[i]);
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
major, minor = device.compute_capability
program = Program(SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"compute_{major}{minor}"))
code = program.compile("ptx", name_expressions=("scale<float>", "scale<double>"))

for kind, name in (("f4", "scale<float>"), ("f8", "scale<double>")):
    size = np.dtype(kind).itemsize
    buffer = device.allocate(1000 * size, stream=stream)
    start, end = (device.create_event(EventOptions(timing_enabled=True)) for _ in range(2))
    stream.record(start)
    launch(
        stream, LaunchConfig(grid=4, block=256), code.get_kernel(name), buffer, np.dtype(kind).type(2), np.int32(1000)
    )
    stream.record(end)
    stream.sync()
    assert end - start > 0
    told = np.frombuffer((c_char * (1000 * size)).from_address(int(buffer.handle)), kind)  # device memory is the host's
    assert (told == 2 * np.arange(1000)).all()
    buffer.close(stream)

out = device.allocate(65 * 4, stream=stream)
launch(stream, LaunchConfig(grid=1, block=64), code.get_kernel("count"), out)
stream.sync()
told = np.frombuffer((c_char * (65 * 4)).from_address(int(out.handle)), "i4")
assert told[0] == 104
threads = np.arange(64)
assert (
    told[1:]
    == (63 - threads).reshape(2, 32)[:, np.arange(32) ^ 1].ravel() + [int(each).bit_count() for each in threads]
).all()

given = np.linspace(0.1, 20, 500)
values = device.allocate(given.nbytes, stream=stream)
memory = np.frombuffer((c_char * given.nbytes).from_address(int(values.handle)), "f8")
memory[:] = given
launch(stream, LaunchConfig(grid=4, block=128), code.get_kernel("mathematics"), values, np.int32(500))
stream.sync()
expected = np.sin(given) + np.exp(-given) + given**1.5 + np.log1p(given) + [erf(each) for each in given]
assert np.allclose(memory, expected, rtol=1e-14)
print(device.name)

"""cuda.bindings.driver: the driver API from Python, as NVIDIA publishes it."""

import ctypes

import numpy as np
from cuda.bindings import driver as cuda

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n) {
    .reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<6>; .reg .f32 %f<5>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r1, [n]; setp.ge.u32 %p1, %r4, %r1; @%p1 ret;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    ld.param.f32 %f1, [a]; ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd5]; fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd5], %f4; ret;
}
"""


def ok(answer):
    assert answer[0] == cuda.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]


ok(cuda.cuInit(0))
device = ok(cuda.cuDeviceGet(0))
context = ok(cuda.cuDevicePrimaryCtxRetain(device))
ok(cuda.cuCtxSetCurrent(context))
name = ok(cuda.cuDeviceGetName(64, device)).split(b"\0")[0].decode()
free, total = ok(cuda.cuMemGetInfo())
assert cuda.cuMemAlloc(total + 1)[0] == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY
assert ok(cuda.cuGetErrorName(cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY)) == b"CUDA_ERROR_OUT_OF_MEMORY"

count = 1000
x, y = np.arange(count, dtype="f4"), np.ones(count, "f4")
stream = ok(cuda.cuStreamCreate(0))
start, end = (ok(cuda.cuEventCreate(0)) for _ in range(2))
on_gpu = [ok(cuda.cuMemAllocAsync(x.nbytes, stream)) for _ in range(2)]
for address, array in zip(on_gpu, (x, y), strict=True):
    ok(cuda.cuMemcpyHtoDAsync(address, array.ctypes.data, array.nbytes, stream))
module = ok(cuda.cuModuleLoadData(PTX))
assert cuda.cuModuleGetFunction(module, b"nope")[0] == cuda.CUresult.CUDA_ERROR_NOT_FOUND
function = ok(cuda.cuModuleGetFunction(module, b"axpy"))
values = (2.0, int(on_gpu[0]), int(on_gpu[1]), count)
kinds = (ctypes.c_float, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32)
ok(cuda.cuEventRecord(start, stream))
for _ in range(10):
    ok(cuda.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, stream, (values, kinds), 0))
ok(cuda.cuEventRecord(end, stream))
result = np.empty_like(y)
ok(cuda.cuMemcpyDtoHAsync(result.ctypes.data, on_gpu[1], y.nbytes, stream))
ok(cuda.cuStreamSynchronize(stream))
assert (result == 20 * x + 1).all()
milliseconds = ok(cuda.cuEventElapsedTime(start, end))
assert abs(milliseconds - (0.005 + 10 * 0.05)) < 1e-6, (
    milliseconds
)  # the first starts 5 us after its launch; each takes 50 us

ok(cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
ok(cuda.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, stream, (values, kinds), 0))
ok(cuda.cuMemcpyDtoHAsync(result.ctypes.data, on_gpu[1], y.nbytes, stream))
graph = ok(cuda.cuStreamEndCapture(stream))
ready = ok(cuda.cuGraphInstantiate(graph, 0))
assert (result == 20 * x + 1).all(), "a capture computes nothing"
for _ in range(3):
    ok(cuda.cuGraphLaunch(ready, stream))
ok(cuda.cuStreamSynchronize(stream))
assert (result == 26 * x + 1).all()

for address in on_gpu:
    ok(cuda.cuMemFreeAsync(address, stream))
ok(cuda.cuStreamSynchronize(stream))
assert ok(cuda.cuMemGetInfo()) == (free, total)
print(name)

"""numba-cuda: kernels written in Python, compiled by NVVM to PTX."""

import warnings

import numpy as np
from numba import cuda, float32, int32

warnings.simplefilter("ignore")
TILE = 16


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def total(x, out):
    cells = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    cells[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            cells[t] += cells[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, cells[0])


@cuda.jit
def matmul(a, b, c):
    left, right = cuda.shared.array((TILE, TILE), float32), cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    found = float32(0)
    for step in range((a.shape[1] + TILE - 1) // TILE):
        left[tx, ty] = a[x, ty + step * TILE] if x < a.shape[0] and ty + step * TILE < a.shape[1] else 0
        right[tx, ty] = b[tx + step * TILE, y] if y < b.shape[1] and tx + step * TILE < b.shape[0] else 0
        cuda.syncthreads()
        for k in range(TILE):
            found += left[tx, k] * right[k, ty]
        cuda.syncthreads()
    if x < c.shape[0] and y < c.shape[1]:
        c[x, y] = found


@cuda.jit
def warp_total(x, out):
    value = x[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


@cuda.jit
def bits(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = cuda.popc(x[i]) + cuda.clz(x[i]) * 100 + (cuda.brev(x[i]) & 0xFF) * 10000


@cuda.jit
def histogram(x, out):
    own = cuda.local.array(4, int32)
    for k in range(4):
        own[k] = 0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own[x[i] % 4] += 1
    for k in range(4):
        cuda.atomic.add(out, k, own[k])


@cuda.jit(device=True)
def collatz_steps(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@cuda.jit
def collatz(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = collatz_steps(i + 1)


rng = np.random.default_rng(1)
x = np.arange(1024, dtype="f4")
y = cuda.to_device(np.ones(1024, "f4"))
axpy[8, 128](np.float32(2), cuda.to_device(x), y)
assert (y.copy_to_host() == 2 * x + 1).all()

out = cuda.to_device(np.zeros(1, "f4"))
total[8, 128](cuda.to_device(x), out)
assert out.copy_to_host()[0] == x.sum()

a, b = rng.random((50, 70), "f4"), rng.random((70, 40), "f4")
c = cuda.device_array((50, 40), "f4")
matmul[(4, 3), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
assert np.allclose(c.copy_to_host(), a @ b, rtol=1e-5)

out = cuda.to_device(np.zeros(1, "i8"))
warp_total[4, 64](cuda.to_device(np.arange(256)), out)
assert out.copy_to_host()[0] == 255 * 128

words = rng.integers(1, 2**32, 256, dtype="u4")
out = cuda.device_array(256, "i8")
bits[2, 128](cuda.to_device(words), out)
expected = [
    int(w).bit_count() + (32 - int(w).bit_length()) * 100 + int(f"{w:032b}"[::-1][-8:], 2) * 10000 for w in words
]
assert out.copy_to_host().tolist() == expected

values = rng.integers(0, 1000, 5000, dtype="i4")
out = cuda.to_device(np.zeros(4, "i4"))
histogram[2, 64](cuda.to_device(values), out)
assert (out.copy_to_host() == np.bincount(values % 4)).all()

out = cuda.device_array(200, "i4")
collatz[2, 128](out)
told = out.copy_to_host()
assert (told[0], told[26], told[96]) == (0, 111, 118)

pinned = cuda.pinned_array(1024, "f4")
pinned[:] = x
stream = cuda.stream()
start, end = cuda.event(), cuda.event()
start.record(stream)
d = cuda.to_device(pinned, stream=stream)
end.record(stream)
stream.synchronize()
assert (d.copy_to_host() == x).all()
assert cuda.event_elapsed_time(start, end) > 0
managed = cuda.managed_array(16, "f8")
managed[:] = 3
axpy[1, 32](1.0, managed, managed)
cuda.synchronize()
assert (managed == 6).all()
free, everything = cuda.current_context().get_memory_info()
assert 0 < free < everything
print(cuda.get_current_device().name)

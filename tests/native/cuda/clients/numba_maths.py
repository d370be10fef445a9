"""numba-cuda: functions of the maths library, many of which become calls in PTX."""

import math
import warnings

import numpy as np
from numba import cuda

warnings.simplefilter("ignore")

NAMES = "sin cos tan sinh cosh tanh asinh exp expm1 log log2 log10 log1p sqrt erf erfc gamma lgamma atan floor ceil trunc fabs".split()
NEAR_ZERO = "asin acos atanh".split()  # numbers from -1 to 1
OF_TWO = "pow atan2 hypot fmod copysign".split()


def make(name, two):
    function = getattr(math, name)
    if two:

        @cuda.jit
        def kernel(x, y, out):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = function(x[i], y[i])
    else:

        @cuda.jit
        def kernel(x, y, out):
            i = cuda.grid(1)
            if i < x.size:
                out[i] = function(x[i])

    return kernel


rng = np.random.default_rng(3)
large = np.concatenate(
    [rng.uniform(0.01, 30, 300), [1e5, 1e6, 123456.789]]
)  # sines of large numbers take the slow path
for kind, tolerance in (("f8", 1e-13), ("f4", 2e-6)):
    for name in (*NAMES, *NEAR_ZERO, *OF_TWO):
        x = (
            rng.uniform(-0.99, 0.99, 300)
            if name in NEAR_ZERO
            else large
            if name in ("sin", "cos", "log", "sqrt", "atan")
            else rng.uniform(0.05, 5, 300)
        )
        x, y = x.astype(kind), rng.uniform(0.1, 3, x.size).astype(kind)
        out = cuda.device_array(x.size, kind)
        make(name, name in OF_TWO)[3, 128](cuda.to_device(x), cuda.to_device(y), out)
        told = out.copy_to_host()
        expected = [
            getattr(math, name)(float(a), float(b)) if name in OF_TWO else getattr(math, name)(float(a))
            for a, b in zip(x, y, strict=True)
        ]
        wrong = np.abs(told - expected) > tolerance * np.maximum(np.abs(expected), 1)
        assert not wrong.any(), (kind, name, x[wrong][:3], told[wrong][:3], np.array(expected)[wrong][:3])
        print(kind, name)

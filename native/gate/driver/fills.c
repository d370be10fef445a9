/* Filling memory: also the functions that name no stream only queue it. */
#include "launching.h"

#define FILLING(name, value)                                                                                        \
    LAUNCHING_BOTH(name##Async, stream, (to, with, count, stream), CUdeviceptr to, value with, size_t count,        \
                   CUstream stream)                                                                                 \
    LAUNCHING(name##_v2, CU_STREAM_LEGACY, (to, with, count), CUdeviceptr to, value with, size_t count)             \
    LAUNCHING(name##_v2_ptds, CU_STREAM_PER_THREAD, (to, with, count), CUdeviceptr to, value with, size_t count)

#define FILLING_2D(name, value)                                                                                     \
    LAUNCHING_BOTH(name##Async, stream, (to, pitch, with, width, height, stream), CUdeviceptr to, size_t pitch,     \
                   value with, size_t width, size_t height, CUstream stream)                                        \
    LAUNCHING(name##_v2, CU_STREAM_LEGACY, (to, pitch, with, width, height), CUdeviceptr to, size_t pitch,          \
              value with, size_t width, size_t height)                                                              \
    LAUNCHING(name##_v2_ptds, CU_STREAM_PER_THREAD, (to, pitch, with, width, height), CUdeviceptr to, size_t pitch, \
              value with, size_t width, size_t height)

FILLING(cuMemsetD8, unsigned char)
FILLING(cuMemsetD16, unsigned short)
FILLING(cuMemsetD32, unsigned int)
FILLING_2D(cuMemsetD2D8, unsigned char)
FILLING_2D(cuMemsetD2D16, unsigned short)
FILLING_2D(cuMemsetD2D32, unsigned int)

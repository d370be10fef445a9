/* Filling memory with one value. */
#include <string.h>

#include "memory.h"
#include "operation.h"

CUresult fill_check(const CUDA_MEMSET_NODE_PARAMS *fill) {
    struct range range;
    if (fill->element_bytes != 1 && fill->element_bytes != 2 && fill->element_bytes != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (fill->to % fill->element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    if (fill->width > SIZE_MAX / 8 || (fill->height > 1 && fill->pitch < fill->width * fill->element_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (fill->width == 0 || fill->height == 0) return CUDA_SUCCESS;
    size_t bytes = (fill->height - 1) * fill->pitch + fill->width * fill->element_bytes;
    return range_holds((uintptr_t)fill->to, bytes, &range) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void fill_run(struct gpu *gpu, const CUDA_MEMSET_NODE_PARAMS *fill, double *tail) {
    for (size_t row = 0; row < fill->height; row++) {
        unsigned char *start = (unsigned char *)(uintptr_t)fill->to + row * fill->pitch;
        if (fill->element_bytes == 1) memset(start, (int)fill->value, fill->width);
        else if (fill->element_bytes == 2)
            for (size_t i = 0; i < fill->width; i++) ((uint16_t *)start)[i] = (uint16_t)fill->value;
        else
            for (size_t i = 0; i < fill->width; i++) ((uint32_t *)start)[i] = fill->value;
    }
    double bytes = (double)(fill->width * fill->element_bytes * fill->height);
    gpu_copy(gpu, tail, gpu->kind->kernel_floor_s + bytes / gpu->kind->bandwidth, ENGINE_NONE);
}

static CUresult put_fill(CUdeviceptr to, size_t pitch, unsigned int value, unsigned int element_bytes, size_t width,
                         size_t height, CUstream handle) {
    struct stream *stream;
    struct operation operation = {.kind = OPERATION_FILL, .fill = {to, pitch, value, element_bytes, width, height}};
    CUresult result = find_stream(handle, &stream);
    if (result == CUDA_SUCCESS) result = fill_check(&operation.fill);
    if (result != CUDA_SUCCESS || width == 0 || height == 0) return result;
    return stream_put(stream, &operation);
}

/* Each width of an element has four forms: a line or rows, now or in the order of a stream. */
#define FILLS(bits, type)                                                                                           \
    EXPORT CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count) {                                \
        return put_fill(to, 0, value, bits / 8, count, 1, NULL);                                                    \
    }                                                                                                               \
    EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) {             \
        return put_fill(to, 0, value, bits / 8, count, 1, stream);                                                  \
    }                                                                                                               \
    EXPORT CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height) { \
        return put_fill(to, pitch, value, bits / 8, width, height, NULL);                                           \
    }                                                                                                               \
    EXPORT CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, \
                                             CUstream stream) {                                                     \
        return put_fill(to, pitch, value, bits / 8, width, height, stream);                                         \
    }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)

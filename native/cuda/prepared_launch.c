/* Launches as the first versions of the driver had them: shape and arguments are set on the kernel before. */
#include <stdlib.h>
#include <string.h>

#include "module.h"

#define MOST_ARGUMENT_BYTES 4096

static CUresult find_room(struct function *function, size_t end) {
    struct prepared_launch *prepared = &function->prepared;
    if (end > MOST_ARGUMENT_BYTES) return CUDA_ERROR_INVALID_VALUE;
    if (prepared->arguments == NULL) prepared->arguments = calloc(1, MOST_ARGUMENT_BYTES);
    return prepared->arguments == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetBlockShape(CUfunction handle, int x, int y, int z) {
    struct function *function;
    CUresult result = find_function(handle, &function);
    if (result != CUDA_SUCCESS) return result;
    if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
    const unsigned int block[3] = {(unsigned int)x, (unsigned int)y, (unsigned int)z};
    memcpy(function->prepared.block, block, sizeof block);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetSharedSize(CUfunction handle, unsigned int bytes) {
    struct function *function;
    CUresult result = find_function(handle, &function);
    if (result == CUDA_SUCCESS) function->prepared.shared_bytes = bytes;
    return result;
}

EXPORT CUresult cuParamSetSize(CUfunction handle, unsigned int bytes) {
    struct function *function;
    CUresult result = find_function(handle, &function);
    if (result == CUDA_SUCCESS) result = find_room(function, bytes);
    if (result == CUDA_SUCCESS) function->prepared.bytes = bytes;
    return result;
}

EXPORT CUresult cuParamSetv(CUfunction handle, int offset, const void *value, unsigned int bytes) {
    struct function *function;
    CUresult result = find_function(handle, &function);
    if (result != CUDA_SUCCESS) return result;
    if (offset < 0 || value == NULL) return CUDA_ERROR_INVALID_VALUE;
    result = find_room(function, (size_t)offset + bytes);
    if (result == CUDA_SUCCESS) memcpy(function->prepared.arguments + offset, value, bytes);
    return result;
}

EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned int value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

EXPORT CUresult cuLaunchGridAsync(CUfunction handle, int width, int height, CUstream stream) {
    struct function *function;
    CUresult result = find_function(handle, &function);
    if (result != CUDA_SUCCESS) return result;
    if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
    struct prepared_launch *prepared = &function->prepared;
    void *extra[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER, prepared->arguments, (void *)CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &prepared->bytes, (void *)CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {.grid = {(unsigned int)width, (unsigned int)height, 1},
                             .shared_bytes = prepared->shared_bytes,
                             .stream = stream};
    memcpy(config.block, prepared->block, sizeof config.block);
    return cuLaunchKernelEx(&config, handle, NULL, extra);
}

EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height) {
    return cuLaunchGridAsync(function, width, height, NULL);
}

EXPORT CUresult cuLaunch(CUfunction function) { return cuLaunchGridAsync(function, 1, 1, NULL); }

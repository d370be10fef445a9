/* What a program may ask about kernels, and how many of them fit. */
#include <string.h>

#include "limits_of_gpus.h"
#include "module.h"

#define FIND(handle, function)                              \
    struct function *function;                              \
    do {                                                    \
        CUresult found_ = find_function(handle, &function); \
        if (found_ != CUDA_SUCCESS) return found_;          \
    } while (0)

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction handle) {
    FIND(handle, function);
    if (value == NULL || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_COUNT) return CUDA_ERROR_INVALID_VALUE;
    *value = function->attributes[attribute];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction handle, int attribute, int value) {
    FIND(handle, function);
    if (attribute == CU_FUNC_MAX_DYNAMIC_SHARED &&
        (value < 0 || value > SHARED_PER_MULTIPROCESSOR - function->attributes[CU_FUNC_SHARED_BYTES]))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute < CU_FUNC_MAX_DYNAMIC_SHARED || attribute >= CU_FUNC_ATTRIBUTE_COUNT) return CUDA_ERROR_INVALID_VALUE;
    function->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, unsigned int preferred) {
    FIND(handle, function);
    (void)function, (void)preferred; /* caches are not modelled */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction handle, unsigned int preferred) {
    return cuFuncSetCacheConfig(handle, preferred);
}

EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction handle) {
    FIND(handle, function);
    if (module == NULL) return CUDA_ERROR_INVALID_VALUE;
    *module = function->module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction handle) {
    FIND(handle, function);
    if (name == NULL) return CUDA_ERROR_INVALID_VALUE;
    *name = function->name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncIsLoaded(unsigned int *state, CUfunction handle) {
    FIND(handle, function);
    (void)function;
    if (state == NULL) return CUDA_ERROR_INVALID_VALUE;
    *state = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncLoad(CUfunction handle) {
    FIND(handle, function);
    (void)function;
    return CUDA_SUCCESS;
}

static CUresult parameter_info(const struct function *function, size_t index, size_t *offset, size_t *bytes) {
    if (function->code == NULL) return CUDA_ERROR_NOT_SUPPORTED;
    if (index >= ptx_parameter_count(function->code)) return CUDA_ERROR_INVALID_VALUE;
    struct ptx_parameter parameter = ptx_parameter(function->code, index);
    if (offset != NULL) *offset = parameter.offset;
    if (bytes != NULL) *bytes = parameter.bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *bytes) {
    FIND(handle, function);
    return parameter_info(function, index, offset, bytes);
}

/* Kernels of libraries answer without a context, too. */
EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes) {
    return handle_is(kernel, HANDLE_FUNCTION) ? parameter_info(kernel, index, offset, bytes)
                                              : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuKernelGetName(const char **name, CUkernel kernel) {
    if (name == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(kernel, HANDLE_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    *name = kernel->name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device) {
    (void)device; /* the same on all */
    if (!handle_is(kernel, HANDLE_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    if (value == NULL || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_COUNT) return CUDA_ERROR_INVALID_VALUE;
    *value = kernel->attributes[attribute];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, unsigned int preferred, CUdevice device) {
    (void)preferred, (void)device;
    return handle_is(kernel, HANDLE_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* As many blocks as threads, blocks and shared memory of a multiprocessor allow; registers are not modelled. */
static int blocks_that_fit(const struct function *function, int block_size, size_t dynamic_shared) {
    int warps = (block_size + WARP_SIZE - 1) / WARP_SIZE;
    size_t shared = (size_t)function->attributes[CU_FUNC_SHARED_BYTES] + dynamic_shared;
    int blocks = THREADS_PER_MULTIPROCESSOR / WARP_SIZE / warps;
    if (blocks > BLOCKS_PER_MULTIPROCESSOR) blocks = BLOCKS_PER_MULTIPROCESSOR;
    if (shared > 0 && SHARED_PER_MULTIPROCESSOR / shared < (size_t)blocks)
        blocks = (int)(SHARED_PER_MULTIPROCESSOR / shared);
    return block_size > function->attributes[CU_FUNC_MAX_THREADS_PER_BLOCK] ? 0 : blocks;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction handle, int block_size,
                                                                     size_t shared, unsigned int flags) {
    FIND(handle, function);
    (void)flags;
    if (blocks == NULL || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = blocks_that_fit(function, block_size, shared);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                            size_t shared) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, 0);
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                          size_t (*shared_for)(int), size_t shared, int limit,
                                                          unsigned int flags) {
    FIND(handle, function);
    (void)flags;
    if (grid == NULL || block == NULL) return CUDA_ERROR_INVALID_VALUE;
    int most = function->attributes[CU_FUNC_MAX_THREADS_PER_BLOCK], best = 0;
    if (limit > 0 && limit < most) most = limit;
    for (int size = most - most % WARP_SIZE; size > 0; size -= WARP_SIZE) {
        int blocks = blocks_that_fit(function, size, shared_for != NULL ? shared_for(size) : shared);
        if (blocks * size <= best) continue;
        best = blocks * size;
        *block = size;
        *grid = blocks * function->module->context->gpu->kind->multiprocessors;
    }
    return best > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, size_t (*shared_for)(int),
                                                 size_t shared, int limit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_for, shared, limit, 0);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction handle, int blocks, int block_size) {
    FIND(handle, function);
    if (bytes == NULL || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
    size_t each = SHARED_PER_MULTIPROCESSOR / (size_t)blocks, own = (size_t)function->attributes[CU_FUNC_SHARED_BYTES];
    *bytes = each > own ? each - own : 0;
    return CUDA_SUCCESS;
}

/* Launches of kernels: their arguments, their time, and what they compute. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_time.h"
#include "limits_of_gpus.h"
#include "memory.h"
#include "message.h"
#include "module.h"
#include "operation.h"

size_t function_argument_bytes(const struct function *function) {
    return function->code == NULL ? 0 : ptx_argument_bytes(function->code);
}

/* A buffer of arguments that the program has laid out itself. */
static bool packed_arguments(void **extra, const unsigned char **buffer, size_t *bytes) {
    *buffer = NULL;
    *bytes = 0;
    for (unsigned int i = 0; extra[i] != (void *)CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == (void *)CU_LAUNCH_PARAM_BUFFER_POINTER) *buffer = extra[i + 1];
        else if (extra[i] == (void *)CU_LAUNCH_PARAM_BUFFER_SIZE) *bytes = *(size_t *)extra[i + 1];
        else return false;
    }
    return *buffer != NULL;
}

static CUresult copy_arguments(const struct function *function, void **parameters, void **extra,
                               unsigned char *arguments) {
    const struct ptx_function *code = function->code;
    if (ptx_parameter_count(code) == 0) return CUDA_SUCCESS;
    if (parameters == NULL && extra == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (parameters == NULL) {
        const unsigned char *buffer;
        size_t bytes;
        if (!packed_arguments(extra, &buffer, &bytes)) return CUDA_ERROR_INVALID_VALUE;
        memcpy(arguments, buffer, bytes < ptx_argument_bytes(code) ? bytes : ptx_argument_bytes(code));
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < ptx_parameter_count(code); i++) {
        struct ptx_parameter parameter = ptx_parameter(code, i);
        if (parameters[i] == NULL) return CUDA_ERROR_INVALID_VALUE;
        memcpy(arguments + parameter.offset, parameters[i], parameter.bytes);
    }
    return CUDA_SUCCESS;
}

static bool fits(const struct function *function, const unsigned int grid[3], const unsigned int block[3],
                 unsigned int shared_bytes) {
    for (unsigned int axis = 0; axis < 3; axis++)
        if (grid[axis] == 0 || block[axis] == 0 || grid[axis] > (axis == 0 ? BLOCKS_PER_GRID_X : BLOCKS_PER_GRID))
            return false;
    if (block[0] > THREADS_PER_BLOCK || block[1] > THREADS_PER_BLOCK || block[2] > THREADS_PER_BLOCK_Z) return false;
    if (block[0] * block[1] * block[2] > (unsigned int)function->attributes[CU_FUNC_MAX_THREADS_PER_BLOCK])
        return false;
    unsigned int most = (unsigned int)function->attributes[CU_FUNC_MAX_DYNAMIC_SHARED];
    return shared_bytes <= (most < SHARED_PER_MULTIPROCESSOR ? most : SHARED_PER_MULTIPROCESSOR);
}

CUresult launch_make(struct function *function, const unsigned int grid[3], const unsigned int block[3],
                     unsigned int shared_bytes, void **parameters, void **extra, struct operation *operation) {
    if (!fits(function, grid, block, shared_bytes)) return CUDA_ERROR_INVALID_VALUE;
    struct launch *launch = &operation->launch;
    *operation = (struct operation){
        .kind = OPERATION_KERNEL,
        .launch = {function, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes, NULL}};
    if (function->code == NULL) return CUDA_SUCCESS;
    launch->arguments = calloc(function_argument_bytes(function) + 1, 1);
    if (launch->arguments == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = copy_arguments(function, parameters, extra, launch->arguments);
    if (result != CUDA_SUCCESS) operation_free(operation);
    return result;
}

static bool find_memory(uintptr_t address, uintptr_t *begin, uintptr_t *end) {
    struct range range;
    if (!range_find(address, &range)) return false;
    *begin = range.start;
    *end = range.start + range.bytes;
    return true;
}

static CUresult execute(const struct launch *launch, double start, double *seen) {
    static const CUresult results[] = {
        [PTX_DONE] = CUDA_SUCCESS,
        [PTX_UNSUPPORTED] = CUDA_ERROR_NOT_SUPPORTED,
        [PTX_ILLEGAL_ADDRESS] = CUDA_ERROR_ILLEGAL_ADDRESS,
        [PTX_MISALIGNED] = CUDA_ERROR_MISALIGNED_ADDRESS,
        [PTX_ASSERTED] = CUDA_ERROR_ASSERT,
        [PTX_FAILED] = CUDA_ERROR_LAUNCH_FAILED,
        [PTX_NO_MEMORY] = CUDA_ERROR_OUT_OF_MEMORY,
    };
    char message[PTX_MESSAGE_BYTES];
    struct ptx_launch run = {
        .module = launch->function->module->ptx,
        .kernel = launch->function->code,
        .grid = launch->grid,
        .block = launch->block,
        .dynamic_shared_bytes = launch->shared_bytes,
        .arguments = launch->arguments,
        .start_ns = (uint64_t)llround(start * 1e9),
        .find = find_memory,
    };
    uint64_t passed_ns;
    enum ptx_result result = ptx_run(&run, &passed_ns, message);
    *seen = 1e-9 * (double)passed_ns;
    if (result != PTX_DONE) complain("%s", message);
    return results[result];
}

/* After some failures nothing works in the context any more, as with CUDA. */
static bool is_lasting(CUresult result) {
    return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_MISALIGNED_ADDRESS ||
           result == CUDA_ERROR_ASSERT || result == CUDA_ERROR_LAUNCH_FAILED;
}

CUresult launch_run(struct context *context, const struct launch *launch, double *tail) {
    const struct function *function = launch->function;
    uint64_t threads = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] * launch->block[0] *
                       launch->block[1] * launch->block[2];
    CUresult result = CUDA_SUCCESS;
    double seen = 0;
    if (function->code != NULL && machine_settings()->execute) { /* first, as it may tell how long it takes */
        double before = host_seconds();
        result = execute(launch, gpu_mark(context->gpu, *tail), &seen);
        gpu_fell_behind(context->gpu, host_seconds() - before);
    }
    bool named = !isnan(function->seconds);
    gpu_launch(context->gpu, tail,
               named ? function->seconds : kernel_seconds_by_size(context->gpu->kind, threads, seen));
    if (is_lasting(result)) context->error = result;
    return result;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **parameters, void **extra) {
    struct stream *stream;
    struct function *function;
    struct operation operation;
    if (config == NULL) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < config->attribute_count; i++) {
        const CUlaunchAttribute *attribute = &config->attributes[i];
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute->value.cooperative)
            return CUDA_ERROR_NOT_SUPPORTED;
        const unsigned int *cluster = attribute->value.cluster;
        if (attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && cluster[0] * cluster[1] * cluster[2] > 1)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    CUresult result = find_stream(config->stream, &stream);
    if (result == CUDA_SUCCESS) result = find_function(handle, &function);
    if (result == CUDA_SUCCESS)
        result =
            launch_make(function, config->grid, config->block, config->shared_bytes, parameters, extra, &operation);
    return result == CUDA_SUCCESS ? stream_put(stream, &operation) : result;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                               unsigned int block_x, unsigned int block_y, unsigned int block_z,
                               unsigned int shared_bytes, CUstream stream, void **parameters, void **extra) {
    CUlaunchConfig config = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, NULL, 0};
    return cuLaunchKernelEx(&config, function, parameters, extra);
}

/* Blocks run one after the other, so that a kernel whose blocks wait for each other would never end. */
EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                          unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                          unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                          void **parameters) {
    if ((uint64_t)grid_x * grid_y * grid_z == 1)
        return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                              parameters, NULL);
    trace_once("cuLaunchCooperativeKernel is supported for a single block only");
    return CUDA_ERROR_NOT_SUPPORTED;
}

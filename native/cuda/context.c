#include "context.h"

#include "memory.h"
#include "module.h"

#define DEEPEST 64

static struct context primaries[MOST_GPUS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over who is alive */
static _Thread_local struct context *stack[DEEPEST];
static _Thread_local unsigned int depth;
static _Atomic unsigned long long last_id;

struct context *primary_context(const struct gpu *gpu) { return &primaries[gpu->index]; }

static CUresult check(struct context *context) {
    if (!handle_is(context, HANDLE_CONTEXT)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return context->error;
}

CUresult current_context(struct context **context) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return *context == NULL ? CUDA_ERROR_INVALID_CONTEXT : check(*context);
}

CUresult named_context(CUcontext handle, struct context **context) {
    if (handle == NULL) return current_context(context);
    *context = handle;
    return handle_is(handle, HANDLE_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult begin(struct context *context, struct gpu *gpu) {
    CUresult result = gpu_connect(gpu);
    if (result != CUDA_SUCCESS) return result;
    context->gpu = gpu;
    context->id = ++last_id;
    context->error = CUDA_SUCCESS;
    context->peers = 0;
    context->streams = NULL;
    context->blocking_tail = 0;
    context->legacy.context = context;
    context->legacy.tail = 0;
    context->legacy.id = 1;
    context->legacy.capture = NULL;
    handle_mark(&context->legacy.handle, HANDLE_STREAM);
    return CUDA_SUCCESS;
}

/* Gives back everything that belongs to a context. */
static void end(struct context *context) {
    context_synchronize(context);
    while (context->streams != NULL) {
        struct stream *stream = context->streams;
        context->streams = stream->next;
        handle_drop(stream);
    }
    modules_of_context_end(context);
    memory_of_context_end(context);
    handle_unmark(&context->legacy.handle);
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *handle, CUdevice device) {
    struct gpu *gpu;
    CUresult result = find_gpu(device, &gpu);
    if (result != CUDA_SUCCESS) return result;
    if (handle == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct context *context = primary_context(gpu);
    pthread_mutex_lock(&lock);
    if (context->references == 0) result = begin(context, gpu);
    if (result == CUDA_SUCCESS) {
        context->primary = true;
        context->references++;
        handle_mark(&context->handle, HANDLE_CONTEXT);
        *handle = context;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void end_primary(struct context *context) {
    end(context);
    context->references = 0;
    handle_unmark(&context->handle);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    struct gpu *gpu;
    CUresult result = find_gpu(device, &gpu);
    if (result != CUDA_SUCCESS) return result;
    struct context *context = primary_context(gpu);
    pthread_mutex_lock(&lock);
    if (context->references == 0) result = CUDA_ERROR_INVALID_CONTEXT;
    else if (context->references == 1) end_primary(context);
    else context->references--;
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    struct gpu *gpu;
    CUresult result = find_gpu(device, &gpu);
    if (result != CUDA_SUCCESS) return result;
    struct context *context = primary_context(gpu);
    pthread_mutex_lock(&lock);
    unsigned int references = context->references;
    if (references > 0) { /* whoever holds it holds a fresh one */
        end_primary(context);
        result = begin(context, gpu);
        context->references = references;
        handle_mark(&context->handle, HANDLE_CONTEXT);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    struct gpu *gpu;
    CUresult result = find_gpu(device, &gpu);
    if (result != CUDA_SUCCESS) return result;
    if (flags == NULL || active == NULL) return CUDA_ERROR_INVALID_VALUE;
    *flags = primary_context(gpu)->flags;
    *active = primary_context(gpu)->references > 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
    struct gpu *gpu;
    CUresult result = find_gpu(device, &gpu);
    if (result == CUDA_SUCCESS) primary_context(gpu)->flags = flags;
    return result;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }
EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }
EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    if (!handle_is(context, HANDLE_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == DEEPEST) return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context != NULL) *context = stack[depth];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (context != NULL && !handle_is(context, HANDLE_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth > 0) depth--;
    if (context != NULL) stack[depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (context == NULL) return CUDA_ERROR_INVALID_VALUE;
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *handle, unsigned int flags, CUdevice device) {
    struct gpu *gpu;
    CUresult result = find_gpu(device, &gpu);
    if (result != CUDA_SUCCESS) return result;
    if (handle == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct context *context = handle_new(HANDLE_CONTEXT, sizeof *context);
    if (context == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    context->primary = false;
    context->flags = flags;
    result = begin(context, gpu);
    if (result == CUDA_SUCCESS) result = cuCtxPushCurrent_v2(context);
    if (result == CUDA_SUCCESS) *handle = context;
    else handle_drop(context);
    return result;
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned int flags, CUdevice device) {
    (void)affinity; /* how many multiprocessors it may use */
    return count > 0 ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned int flags, CUdevice device) {
    (void)parameters;
    return cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
    if (!handle_is(context, HANDLE_CONTEXT) || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth > 0 && stack[depth - 1] == context) depth--;
    end(context);
    handle_drop(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle) {
    struct context *context;
    CUresult result = named_context(handle, &context);
    return result == CUDA_SUCCESS ? context_synchronize(context) : result;
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle) {
    struct context *context;
    CUresult result = named_context(handle, &context);
    if (result == CUDA_SUCCESS && device == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *device = (CUdevice)context->gpu->index;
    return result;
}

EXPORT CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device) {
    return cuCtxCreate_v2(context, flags, device);
}
EXPORT CUresult cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }
EXPORT CUresult cuCtxDetach(CUcontext context) { return cuCtxDestroy_v2(context); } /* nobody else can have attached */
EXPORT CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }
EXPORT CUresult cuCtxPopCurrent(CUcontext *context) { return cuCtxPopCurrent_v2(context); }
EXPORT CUresult cuCtxSynchronize(void) { return cuCtxSynchronize_v2(NULL); }
EXPORT CUresult cuCtxGetDevice(CUdevice *device) { return cuCtxGetDevice_v2(device, NULL); }

/* Streams and contexts that end: their handles may come back for others, and their memory is free. */
#include "allocations.h"
#include "streams.h"

#define STREAM_ENDS(name)                                     \
    EXPORT CUresult name(CUstream stream) {                   \
        __typeof__(&name) real = REAL(name);                  \
        if (!is_gated()) return real(stream);                 \
        if (stream != NULL) queue_ends(stream);               \
        inside++;                                             \
        CUresult result = real(stream);                       \
        inside--;                                             \
        return result;                                        \
    }

STREAM_ENDS(cuStreamDestroy)
STREAM_ENDS(cuStreamDestroy_v2)

static void context_ended(struct gated_gpu *gpu, CUcontext context) {
    if (gpu == NULL) return;
    inside++;
    queues_end(gpu, context);
    allocations_end(context);
    inside--;
}

#define CONTEXT_ENDS(name)                                                   \
    EXPORT CUresult name(CUcontext context) {                                \
        __typeof__(&name) real = REAL(name);                                 \
        struct gated_gpu *gpu = is_gated() ? gpu_of_context(context) : NULL; \
        inside++;                                                            \
        CUresult result = real(context);                                     \
        inside--;                                                            \
        if (result == CUDA_SUCCESS) context_ended(gpu, context);             \
        return result;                                                       \
    }

CONTEXT_ENDS(cuCtxDestroy)
CONTEXT_ENDS(cuCtxDestroy_v2)
CONTEXT_ENDS(cuCtxDetach) /* by its only user: attaching is long out of use */

static bool primary_is_active(CUdevice device) {
    unsigned int flags;
    int active = 0;
    CUresult result = DRIVER_CALL(cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *), device, &flags, &active);
    return result == CUDA_SUCCESS && active;
}

/* The primary context of a device, as long as it is active; its users are counted, so this gives back what it takes. */
static CUcontext primary_of(CUdevice device) {
    CUcontext context = NULL;
    if (!primary_is_active(device)) return NULL;
    if (DRIVER_CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, device) != CUDA_SUCCESS) return NULL;
    DRIVER_CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice), device);
    return context;
}

/* Resetting ends it at once; releasing does once nobody else retains it. */
#define PRIMARY_ENDS(name)                                                           \
    EXPORT CUresult name(CUdevice device) {                                          \
        __typeof__(&name) real = REAL(name);                                         \
        if (!is_gated()) return real(device);                                        \
        inside++;                                                                    \
        CUcontext context = primary_of(device);                                      \
        CUresult result = real(device);                                              \
        bool ended = result == CUDA_SUCCESS && context != NULL && !primary_is_active(device); \
        inside--;                                                                    \
        if (ended) context_ended(gpu_of_device(device), context);                    \
        return result;                                                               \
    }

PRIMARY_ENDS(cuDevicePrimaryCtxReset)
PRIMARY_ENDS(cuDevicePrimaryCtxReset_v2)
PRIMARY_ENDS(cuDevicePrimaryCtxRelease)
PRIMARY_ENDS(cuDevicePrimaryCtxRelease_v2)

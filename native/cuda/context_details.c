/* What a program may ask of a context besides using it. */
#include "context.h"

#define LIMITS 8
#define PEERS_AT_MOST 31

static const size_t usual_limits[LIMITS] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0, 0};
static size_t limits[MOST_GPUS][LIMITS]; /* as set; 0 stands for the usual one */

EXPORT CUresult cuCtxGetLimit(size_t *value, unsigned int limit) {
    CURRENT(context);
    if (value == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (limit >= LIMITS) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    size_t set = limits[context->gpu->index][limit];
    *value = set > 0 ? set : usual_limits[limit];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetLimit(unsigned int limit, size_t value) {
    CURRENT(context);
    if (limit >= LIMITS) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    limits[context->gpu->index][limit] = value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetFlags(unsigned int *flags) {
    CURRENT(context);
    if (flags == NULL) return CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetFlags(unsigned int flags) {
    CURRENT(context);
    context->flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long *id) {
    struct context *context;
    CUresult result = named_context(handle, &context);
    if (result == CUDA_SUCCESS && id == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *id = context->id;
    return result;
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version) {
    struct context *context;
    CUresult result = named_context(handle, &context);
    if (result == CUDA_SUCCESS && version == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *version = 3020;
    return result;
}

/* Caches are not modelled: what is preferred is neither kept nor refused. */
EXPORT CUresult cuCtxGetCacheConfig(unsigned int *preferred) {
    CURRENT(context);
    (void)context;
    if (preferred == NULL) return CUDA_ERROR_INVALID_VALUE;
    *preferred = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCacheConfig(unsigned int preferred) {
    CURRENT(context);
    (void)context, (void)preferred;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxResetPersistingL2Cache(void) {
    CURRENT(context);
    (void)context;
    return CUDA_SUCCESS;
}

/* All GPUs of a machine reach each other, over the link of their kind. */
EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    int count = (int)gpu_count();
    if (device < 0 || device >= count || peer < 0 || peer >= count) return CUDA_ERROR_INVALID_DEVICE;
    if (can == NULL) return CUDA_ERROR_INVALID_VALUE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, unsigned int attribute, CUdevice device, CUdevice peer) {
    int can;
    CUresult result = cuDeviceCanAccessPeer(&can, device, peer);
    if (result != CUDA_SUCCESS) return result;
    if (value == NULL || attribute < 1 || attribute > 4) return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == 2 ? can : 0; /* reach it, but without atomics and arrays, and all alike */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
    CURRENT(context);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(peer, HANDLE_CONTEXT) || peer->gpu == context->gpu) return CUDA_ERROR_INVALID_CONTEXT;
    unsigned int bit = 1u << (peer->gpu->index & PEERS_AT_MOST);
    if (context->peers & bit) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= bit;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    CURRENT(context);
    if (!handle_is(peer, HANDLE_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    unsigned int bit = 1u << (peer->gpu->index & PEERS_AT_MOST);
    if ((context->peers & bit) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~bit;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuProfilerStart(void) { return machine_state(); }
EXPORT CUresult cuProfilerStop(void) { return machine_state(); }

/* Freed memory goes back to the GPU at once: a pool keeps none, whatever its release threshold says. */
#include "pool.h"

#include <pthread.h>

#include "graph.h"
#include "memory.h"

struct memory_pool {
    struct handle handle;
    struct gpu *gpu;
    bool is_default;
    uint64_t attributes[CU_POOL_USED_HIGH + 1];
    _Atomic int64_t used, high;
};

static struct memory_pool defaults[MOST_GPUS];
static struct memory_pool *_Atomic chosen[MOST_GPUS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_defaults(void) {
    for (unsigned int device = 0; device < gpu_count(); device++) {
        defaults[device].gpu = gpu_at(device);
        defaults[device].is_default = true;
        handle_mark(&defaults[device].handle, HANDLE_POOL);
    }
}

void pool_count(struct memory_pool *pool, int64_t bytes) {
    int64_t used = pool->used += bytes;
    if (used > pool->high) pool->high = used;
}

static CUresult default_pool(CUdevice device, struct memory_pool **pool) {
    struct gpu *gpu;
    CUresult result = find_gpu(device, &gpu);
    if (result != CUDA_SUCCESS) return result;
    pthread_once(&once, make_defaults);
    *pool = &defaults[device];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    return pool == NULL ? CUDA_ERROR_INVALID_VALUE : default_pool(device, pool);
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    CUresult result = cuDeviceGetDefaultMemPool(pool, device);
    struct memory_pool *wanted = result == CUDA_SUCCESS ? chosen[device] : NULL;
    if (handle_is(wanted, HANDLE_POOL)) *pool = wanted;
    return result;
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    struct memory_pool *usual;
    CUresult result = default_pool(device, &usual);
    if (result != CUDA_SUCCESS) return result;
    if (!handle_is(pool, HANDLE_POOL)) return CUDA_ERROR_INVALID_VALUE;
    chosen[device] = pool;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *made, const CUmemPoolProps *properties) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (made == NULL || properties == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties->handle_types != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (properties->location.id < 0 || (unsigned int)properties->location.id >= gpu_count())
        return CUDA_ERROR_INVALID_DEVICE;
    struct memory_pool *pool = handle_new(HANDLE_POOL, sizeof *pool);
    if (pool == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    pool->gpu = gpu_at((unsigned int)properties->location.id);
    pool->is_default = false;
    pool->used = pool->high = 0;
    for (unsigned int i = 0; i <= CU_POOL_USED_HIGH; i++) pool->attributes[i] = 0;
    *made = pool;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    if (!handle_is(pool, HANDLE_POOL) || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    handle_drop(pool);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
    (void)bytes;
    return handle_is(pool, HANDLE_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The first three say when memory may be used again, and are numbers of four bytes. */
EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, unsigned int attribute, void *value) {
    if (!handle_is(pool, HANDLE_POOL) || value == NULL || attribute < 1 || attribute > CU_POOL_USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t answer = pool->attributes[attribute];
    if (attribute == CU_POOL_RESERVED_CURRENT || attribute == CU_POOL_USED_CURRENT) answer = (uint64_t)pool->used;
    if (attribute == CU_POOL_RESERVED_HIGH || attribute == CU_POOL_USED_HIGH) answer = (uint64_t)pool->high;
    if (attribute < CU_POOL_RELEASE_THRESHOLD)
        *(int *)value = answer == 0; /* stored as what is forbidden: all is allowed */
    else *(uint64_t *)value = answer;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, unsigned int attribute, void *value) {
    if (!handle_is(pool, HANDLE_POOL) || value == NULL || attribute < 1 || attribute > CU_POOL_USED_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute < CU_POOL_RELEASE_THRESHOLD) pool->attributes[attribute] = *(int *)value == 0;
    else if (attribute == CU_POOL_RELEASE_THRESHOLD) pool->attributes[attribute] = *(uint64_t *)value;
    else if (*(uint64_t *)value == 0) pool->high = pool->used; /* peaks can be reset, and nothing else */
    else return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count) {
    (void)access, (void)count; /* all GPUs reach it anyway */
    return handle_is(pool, HANDLE_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemPoolGetAccess(unsigned int *flags, CUmemoryPool pool, CUmemLocation *location) {
    if (!handle_is(pool, HANDLE_POOL) || flags == NULL || location == NULL) return CUDA_ERROR_INVALID_VALUE;
    *flags = 3; /* to read and to write */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream handle) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (stream->capture != NULL) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!handle_is(pool, HANDLE_POOL)) return CUDA_ERROR_INVALID_VALUE;
    result = memory_take(primary_context(pool->gpu)->references > 0 ? primary_context(pool->gpu) : stream->context,
                         bytes, RANGE_DEVICE, pool, address);
    struct range range;
    if (result == CUDA_SUCCESS && range_find((uintptr_t)*address, &range)) pool_count(pool, (int64_t)range.counted);
    return result;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    CURRENT(context);
    CUmemoryPool pool;
    CUresult result = cuDeviceGetMemPool(&pool, (CUdevice)context->gpu->index);
    return result == CUDA_SUCCESS ? cuMemAllocFromPoolAsync(address, bytes, pool, stream) : result;
}

/* What was queued on the stream has been computed already, so nothing will miss the memory. */
EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (stream->capture != NULL) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream_settle(stream);
    return memory_give_back(address);
}

#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "pool.h"

#define LARGE                                                                                               \
    (1u << 20) /* blocks from this size on are mapped, so that only what is written takes the host's memory \
                */

static size_t in_multiples(size_t bytes) {
    return (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
}

static void *take_of_host(size_t bytes, size_t *mapped) {
    *mapped = 0;
    if (bytes < LARGE) {
        void *block = NULL;
        return posix_memalign(&block, MEMORY_ALIGNMENT, bytes) == 0 ? block : NULL;
    }
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) return NULL;
    *mapped = bytes;
    return block;
}

static void give_back_to_host(const struct range *range) {
    if (range->mapped > 0) munmap((void *)range->start, range->mapped);
    else free((void *)range->start);
}

CUresult memory_take(struct context *context, size_t bytes, enum range_kind kind, struct memory_pool *pool,
                     CUdeviceptr *address) {
    if (bytes == 0 || address == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > SIZE_MAX / 2) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t counted = in_multiples(bytes), mapped;
    if (!gpu_reserve(context->gpu, counted)) return CUDA_ERROR_OUT_OF_MEMORY;
    void *block = take_of_host(counted, &mapped);
    struct range range = {(uintptr_t)block, bytes, mapped, counted, kind, 0, 0, context, pool};
    if (block != NULL && range_add(range)) {
        *address = (CUdeviceptr)range.start;
        return CUDA_SUCCESS;
    }
    if (block != NULL) give_back_to_host(&range);
    gpu_release(context->gpu, counted);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static void give_back(const struct range *range) {
    if (range->kind != RANGE_REGISTERED) give_back_to_host(range);
    if (range->counted > 0) gpu_release(range->context->gpu, range->counted);
    if (range->pool != NULL) pool_count(range->pool, -(int64_t)range->counted);
}

CUresult memory_give_back(CUdeviceptr address) {
    struct range range;
    if (address == 0) return CUDA_SUCCESS;
    if (!range_take((uintptr_t)address, ANY_OF(RANGE_DEVICE) | ANY_OF(RANGE_MANAGED), &range))
        return CUDA_ERROR_INVALID_VALUE;
    give_back(&range);
    return CUDA_SUCCESS;
}

void memory_of_context_end(struct context *context) {
    for (struct range range; range_take_of(context, &range);) give_back(&range);
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    CURRENT(context);
    return memory_take(context, bytes, RANGE_DEVICE, NULL, address);
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                                   unsigned int element) {
    CURRENT(context);
    if (pitch == NULL || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (width > SIZE_MAX / 4 || height > SIZE_MAX / 2 / in_multiples(width)) return CUDA_ERROR_OUT_OF_MEMORY;
    *pitch = in_multiples(width);
    return memory_take(context, *pitch * height, RANGE_DEVICE, NULL, address);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags) {
    CURRENT(context);
    if (flags < 1 || flags > 2) return CUDA_ERROR_INVALID_VALUE; /* visible everywhere, or to the host at first */
    return memory_take(context, bytes, RANGE_MANAGED, NULL, address);
}

/* Frees wait for all that is queued, as with CUDA: a copy may still be on its way. */
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
    CURRENT(context);
    if (address == 0) return CUDA_SUCCESS;
    context_synchronize(context);
    return memory_give_back(address);
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CURRENT(context);
    if (free_bytes == NULL || total == NULL) return CUDA_ERROR_INVALID_VALUE;
    *free_bytes = gpu_free_memory(context->gpu);
    *total = gpu_memory(context->gpu);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr address) {
    CURRENT(context);
    (void)context;
    struct range range;
    if (!range_find((uintptr_t)address, &range)) return CUDA_ERROR_NOT_FOUND;
    if (start != NULL) *start = (CUdeviceptr)range.start;
    if (bytes != NULL) *bytes = range.bytes;
    return CUDA_SUCCESS;
}

/* Memory of the host that is pinned counts on no GPU. */
EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned int flags) {
    CURRENT(context);
    if (address == NULL || bytes == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    size_t mapped;
    void *block = bytes > SIZE_MAX / 2 ? NULL : take_of_host(in_multiples(bytes), &mapped);
    if (block == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    struct range range = {(uintptr_t)block, bytes, mapped, 0, RANGE_PINNED, flags, 0, context, NULL};
    if (range_add(range)) {
        *address = block;
        return CUDA_SUCCESS;
    }
    give_back_to_host(&range);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAllocHost_v2(void **address, size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }

EXPORT CUresult cuMemFreeHost(void *address) {
    struct range range;
    if (address == NULL) return CUDA_SUCCESS;
    if (!range_take((uintptr_t)address, ANY_OF(RANGE_PINNED), &range)) return CUDA_ERROR_INVALID_VALUE;
    if (handle_is(range.context, HANDLE_CONTEXT)) context_synchronize(range.context);
    give_back(&range);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned int flags) {
    struct range range;
    if (device == NULL || flags != 0 || !range_find((uintptr_t)host, &range)) return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdeviceptr)(uintptr_t)host;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *host) {
    struct range range;
    if (flags == NULL || !range_find((uintptr_t)host, &range) || range.kind != RANGE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = range.flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags) {
    CURRENT(context);
    struct range other;
    if (address == NULL || bytes == 0 || flags > 15) return CUDA_ERROR_INVALID_VALUE;
    if (range_find((uintptr_t)address, &other)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct range range = {(uintptr_t)address, bytes, 0, 0, RANGE_REGISTERED, flags, 0, context, NULL};
    return range_add(range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemHostUnregister(void *address) {
    struct range range;
    bool taken = range_take((uintptr_t)address, ANY_OF(RANGE_REGISTERED), &range);
    return taken ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

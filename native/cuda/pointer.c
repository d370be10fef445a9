/* What a program may ask about an address. */
#include "memory.h"

static CUresult answer(void *value, unsigned int attribute, CUdeviceptr address, const struct range *range) {
    bool on_host = range->kind == RANGE_PINNED || range->kind == RANGE_REGISTERED;
    switch (attribute) {
        case CU_POINTER_CONTEXT: *(CUcontext *)value = range->context; break;
        case CU_POINTER_MEMORY_TYPE:
            *(unsigned int *)value = on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            break;
        case CU_POINTER_DEVICE_POINTER: *(CUdeviceptr *)value = address; break;
        case CU_POINTER_HOST_POINTER:
            if (range->kind == RANGE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
            *(CUdeviceptr *)value = address;
            break;
        case CU_POINTER_SYNC_MEMOPS: *(int *)value = 0; break;
        case CU_POINTER_BUFFER_ID:
        case CU_POINTER_BLOCK_ID: *(unsigned long long *)value = range->id; break;
        case CU_POINTER_IS_MANAGED: *(int *)value = range->kind == RANGE_MANAGED; break;
        case CU_POINTER_DEVICE_ORDINAL: *(int *)value = (int)range->context->gpu->index; break;
        case CU_POINTER_IPC_CAPABLE:
        case CU_POINTER_RDMA_CAPABLE: *(int *)value = 0; break;
        case CU_POINTER_RANGE_START:
        case CU_POINTER_MAPPING_BASE: *(CUdeviceptr *)value = (CUdeviceptr)range->start; break;
        case CU_POINTER_RANGE_SIZE:
        case CU_POINTER_MAPPING_SIZE: *(size_t *)value = range->bytes; break;
        case CU_POINTER_MAPPED: *(int *)value = 1; break;
        case CU_POINTER_HANDLE_TYPES: *(uint64_t *)value = 0; break;
        case CU_POINTER_ACCESS_FLAGS: *(unsigned int *)value = 3; break;
        case CU_POINTER_POOL: *(CUmemoryPool *)value = range->pool; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *value, unsigned int attribute, CUdeviceptr address) {
    struct range range;
    if (value == NULL || !range_find((uintptr_t)address, &range)) return CUDA_ERROR_INVALID_VALUE;
    return answer(value, attribute, address, &range);
}

/* An address that CUDA does not know is no error here: it has no context, no type, and no GPU. */
static void answer_unknown(void *value, unsigned int attribute) {
    switch (attribute) {
        case CU_POINTER_MEMORY_TYPE:
        case CU_POINTER_SYNC_MEMOPS:
        case CU_POINTER_IS_MANAGED:
        case CU_POINTER_IPC_CAPABLE:
        case CU_POINTER_RDMA_CAPABLE:
        case CU_POINTER_MAPPED:
        case CU_POINTER_ACCESS_FLAGS: *(unsigned int *)value = 0; break;
        case CU_POINTER_DEVICE_ORDINAL: *(int *)value = CU_DEVICE_INVALID; break;
        default: *(uint64_t *)value = 0;
    }
}

EXPORT CUresult cuPointerGetAttributes(unsigned int count, const unsigned int *attributes, void **values,
                                       CUdeviceptr address) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (attributes == NULL || values == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct range range;
    bool known = range_find((uintptr_t)address, &range);
    for (unsigned int i = 0; i < count; i++)
        if (!known || answer(values[i], attributes[i], address, &range) != CUDA_SUCCESS)
            answer_unknown(values[i], attributes[i]);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerSetAttribute(const void *value, unsigned int attribute, CUdeviceptr address) {
    struct range range;
    bool known = value != NULL && range_find((uintptr_t)address, &range);
    return known && attribute == CU_POINTER_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Managed memory is always everywhere: advice is taken and changes nothing. */
static CUresult check_managed(CUdeviceptr address, size_t bytes) {
    struct range range;
    if (!range_holds((uintptr_t)address, bytes, &range) || range.kind != RANGE_MANAGED) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, unsigned int advice, CUdevice device) {
    (void)advice, (void)device;
    return check_managed(address, bytes);
}

EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, unsigned int advice, CUmemLocation location) {
    return cuMemAdvise(address, bytes, advice, location.id);
}

EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream handle) {
    (void)device;
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    return result == CUDA_SUCCESS ? check_managed(address, bytes) : result;
}

EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
                                      CUstream stream) {
    (void)flags;
    return cuMemPrefetchAsync(address, bytes, location.id, stream);
}

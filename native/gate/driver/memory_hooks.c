/* Memory at addresses: allocated, given back, and how much of it there is. */
#include "allocating.h"

bool allocation_begins(struct allocating *allocating, uint64_t bytes) {
    *allocating = (struct allocating){.bytes = bytes};
    if (!is_gated()) return true;
    struct gated_gpu *gpu = current_gpu();
    if (gpu == NULL) return true;
    int error = gpuyard_gate_reserve(gpu->client, bytes);
    if (error == GPUYARD_ERROR_OUT_OF_MEMORY) return false;
    if (error == GPUYARD_OK) allocating->gpu = gpu;
    allocating->context = current_context();
    return true;
}

void allocation_ends(struct allocating *allocating, CUresult result, enum allocation_kind kind, uint64_t handle) {
    if (allocating->gpu == NULL) return;
    if (result == CUDA_SUCCESS) allocation_add(kind, handle, allocating->gpu, allocating->context, allocating->bytes);
    else gpuyard_gate_release(allocating->gpu->client, allocating->bytes);
}

ALLOCATING(cuMemAlloc_v2, ADDRESS_OF_MEMORY, address, bytes, (address, bytes), CUdeviceptr *address, size_t bytes)
ALLOCATING(cuMemAllocManaged, ADDRESS_OF_MEMORY, address, bytes, (address, bytes, flags), CUdeviceptr *address,
           size_t bytes, unsigned int flags)
ALLOCATING(cuMemAllocAsync, ADDRESS_OF_MEMORY, address, bytes, (address, bytes, stream), CUdeviceptr *address,
           size_t bytes, CUstream stream)
ALLOCATING(cuMemAllocAsync_ptsz, ADDRESS_OF_MEMORY, address, bytes, (address, bytes, stream), CUdeviceptr *address,
           size_t bytes, CUstream stream)
ALLOCATING(cuMemAllocFromPoolAsync, ADDRESS_OF_MEMORY, address, bytes, (address, bytes, pool, stream),
           CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
ALLOCATING(cuMemAllocFromPoolAsync_ptsz, ADDRESS_OF_MEMORY, address, bytes, (address, bytes, pool, stream),
           CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)

FREEING(cuMemFree_v2, ADDRESS_OF_MEMORY, address, (address), CUdeviceptr address)
FREEING(cuMemFreeAsync, ADDRESS_OF_MEMORY, address, (address, stream), CUdeviceptr address, CUstream stream)
FREEING(cuMemFreeAsync_ptsz, ADDRESS_OF_MEMORY, address, (address, stream), CUdeviceptr address, CUstream stream)

/* How long a row really is, the driver decides: what a limit forbids after that is given back at once. */
EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element) {
    __typeof__(&cuMemAllocPitch_v2) real = REAL(cuMemAllocPitch_v2);
    struct allocating allocating;
    inside++;
    CUresult result = real(address, pitch, width, height, element);
    inside--;
    if (result != CUDA_SUCCESS) return result;
    if (!allocation_begins(&allocating, (uint64_t)*pitch * height)) {
        inside++;
        DRIVER_CALL(cuMemFree_v2, (CUdeviceptr), *address);
        inside--;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation_ends(&allocating, result, ADDRESS_OF_MEMORY, *address);
    return result;
}

static uint64_t least(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* A program with a limit sees a GPU that has no more than that. */
EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    uint64_t limit, used;
    CUresult result = REAL(cuMemGetInfo_v2)(free_bytes, total);
    struct gated_gpu *gpu = result == CUDA_SUCCESS && is_gated() ? current_gpu() : NULL;
    if (gpu == NULL || gpuyard_gate_memory(gpu->client, &limit, &used) != GPUYARD_OK) return result;
    *total = least(*total, limit);
    *free_bytes = least(*free_bytes, limit - least(used, limit));
    return result;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *total, CUdevice device) {
    uint64_t limit, used;
    CUresult result = REAL(cuDeviceTotalMem_v2)(total, device);
    struct gated_gpu *gpu = result == CUDA_SUCCESS && is_gated() ? gpu_of_device(device) : NULL;
    if (gpu != NULL && gpuyard_gate_memory(gpu->client, &limit, &used) == GPUYARD_OK) *total = least(*total, limit);
    return result;
}

/* Copies of all forms are one: rows and layers from one side to the other. */
#include <string.h>

#include "memory.h"
#include "operation.h"

/* Finds where a side begins, and checks that what is said to be memory of a GPU is. */
static CUresult find_side(const copy_side_3d *side, const CUDA_MEMCPY3D *asked, struct copy_side *found,
                          struct range *range, bool *on_gpu) {
    if (side->type == CU_MEMORYTYPE_ARRAY || side->level != 0) return CUDA_ERROR_NOT_SUPPORTED;
    bool on_host = side->type == CU_MEMORYTYPE_HOST;
    if (!on_host && side->type != CU_MEMORYTYPE_DEVICE && side->type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = side->pitch == 0 ? asked->width_bytes + side->x_bytes : side->pitch;
    size_t height = side->height == 0 ? asked->height + side->y : side->height;
    if (asked->width_bytes > pitch) return CUDA_ERROR_INVALID_VALUE;
    unsigned char *base = on_host ? side->host : (unsigned char *)(uintptr_t)side->device;
    found->start = base + (side->z * height + side->y) * pitch + side->x_bytes;
    found->pitch = pitch;
    found->height = height;
    size_t span = ((asked->depth - 1) * height + asked->height - 1) * pitch + asked->width_bytes;
    bool known = range_find((uintptr_t)found->start, range);
    *on_gpu = known && (range->kind == RANGE_DEVICE || range->kind == RANGE_MANAGED);
    if (!known) range->context = NULL;
    if (base == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!on_host && (side->type == CU_MEMORYTYPE_DEVICE || known) && !range_holds((uintptr_t)found->start, span, range))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult copy_make(const CUDA_MEMCPY3D *asked, struct operation *operation) {
    struct copy *copy = &operation->copy;
    operation->kind = OPERATION_EMPTY;
    if (asked->width_bytes == 0 || asked->height == 0 || asked->depth == 0) return CUDA_SUCCESS;
    struct range from, to;
    bool from_gpu, to_gpu;
    CUresult result = find_side(&asked->from, asked, &copy->from, &from, &from_gpu);
    if (result == CUDA_SUCCESS) result = find_side(&asked->to, asked, &copy->to, &to, &to_gpu);
    if (result != CUDA_SUCCESS) return result;
    operation->kind = OPERATION_COPY;
    copy->width_bytes = asked->width_bytes;
    copy->height = asked->height;
    copy->depth = asked->depth;
    copy->engine = from_gpu == to_gpu ? ENGINE_NONE : from_gpu ? ENGINE_TO_HOST : ENGINE_FROM_HOST;
    copy->pinned = (from_gpu ? to : from).context != NULL;
    copy->between_gpus = from_gpu && to_gpu && from.context->gpu != to.context->gpu;
    return CUDA_SUCCESS;
}

static double seconds_of(const struct gpu_kind *kind, const struct copy *copy, uint64_t bytes) {
    if (copy->engine != ENGINE_NONE) return copy_seconds(kind, bytes, copy->pinned);
    if (copy->between_gpus) return kind->link_latency_s + (double)bytes / kind->link_bandwidth;
    return kind->kernel_floor_s + 2 * (double)bytes / kind->bandwidth; /* read and written */
}

void copy_run(struct gpu *gpu, const struct copy *copy, double *tail) {
    for (size_t layer = 0; layer < copy->depth; layer++)
        for (size_t row = 0; row < copy->height; row++)
            memmove(copy->to.start + (layer * copy->to.height + row) * copy->to.pitch,
                    copy->from.start + (layer * copy->from.height + row) * copy->from.pitch, copy->width_bytes);
    uint64_t bytes = (uint64_t)copy->width_bytes * copy->height * copy->depth;
    gpu_copy(gpu, tail, seconds_of(gpu->kind, copy, bytes), copy->engine);
}

/* Puts a copy onto a stream. The host waits if it is asked to, and for pageable memory, as with CUDA. */
static CUresult put_copy(const CUDA_MEMCPY3D *asked, CUstream handle, bool wait) {
    struct stream *stream;
    struct operation operation;
    if (asked == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find_stream(handle, &stream);
    if (result == CUDA_SUCCESS) result = copy_make(asked, &operation);
    if (result != CUDA_SUCCESS) return result;
    if (wait && stream->capture != NULL) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    bool to_wait = stream->capture == NULL && operation.kind == OPERATION_COPY &&
                   (operation.copy.engine != ENGINE_NONE && (wait || !operation.copy.pinned));
    result = stream_put(stream, &operation);
    if (result == CUDA_SUCCESS && to_wait) gpu_wait(stream->context->gpu, stream->tail);
    return result;
}

static copy_side_3d line(unsigned int type, void *host, CUdeviceptr device) {
    return (copy_side_3d){.type = type, .host = host, .device = device};
}

static CUresult put_line(copy_side_3d to, copy_side_3d from, size_t bytes, CUstream stream, bool wait) {
    CUDA_MEMCPY3D copy = {.from = from, .to = to, .width_bytes = bytes, .height = 1, .depth = 1};
    return put_copy(&copy, stream, wait);
}

#define HOST(pointer) line(CU_MEMORYTYPE_HOST, (void *)(pointer), 0)
#define DEVICE(address) line(CU_MEMORYTYPE_DEVICE, NULL, address)
#define ANYWHERE(address) line(CU_MEMORYTYPE_UNIFIED, NULL, address)

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    return put_line(DEVICE(to), HOST(from), bytes, NULL, true);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    return put_line(HOST(to), DEVICE(from), bytes, NULL, true);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return put_line(DEVICE(to), DEVICE(from), bytes, NULL, true);
}

EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return put_line(ANYWHERE(to), ANYWHERE(from), bytes, NULL, true);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return put_line(DEVICE(to), HOST(from), bytes, stream, false);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return put_line(HOST(to), DEVICE(from), bytes, stream, false);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return put_line(DEVICE(to), DEVICE(from), bytes, stream, false);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return put_line(ANYWHERE(to), ANYWHERE(from), bytes, stream, false);
}

EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                             size_t bytes) {
    (void)to_context, (void)from_context; /* addresses say enough */
    return put_line(DEVICE(to), DEVICE(from), bytes, NULL, true);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                  size_t bytes, CUstream stream) {
    (void)to_context, (void)from_context;
    return put_line(DEVICE(to), DEVICE(from), bytes, stream, false);
}

static copy_side_3d plane(const copy_side_2d *side) {
    return (copy_side_3d){.x_bytes = side->x_bytes,
                          .y = side->y,
                          .type = side->type,
                          .host = side->host,
                          .device = side->device,
                          .array = side->array,
                          .pitch = side->pitch};
}

static CUresult put_plane(const CUDA_MEMCPY2D *asked, CUstream stream, bool wait) {
    if (asked == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D copy = {.from = plane(&asked->from),
                          .to = plane(&asked->to),
                          .width_bytes = asked->width_bytes,
                          .height = asked->height,
                          .depth = 1};
    return put_copy(&copy, stream, wait);
}

EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) { return put_plane(copy, NULL, true); }
EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) { return put_plane(copy, NULL, true); }
EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
    return put_plane(copy, stream, false);
}
EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) { return put_copy(copy, NULL, true); }
EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream) { return put_copy(copy, stream, false); }
EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D *copy) { return put_copy(copy, NULL, true); }
EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *copy, CUstream stream) {
    return put_copy(copy, stream, false);
}

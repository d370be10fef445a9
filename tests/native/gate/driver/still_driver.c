/* A driver on which nothing is ever done by itself: work on a stream is done when somebody synchronises, or the test says so.
 * So what a gate makes of it can be told from counts alone. Two GPUs; handles are small structures; no memory but numbers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

struct context {
    int device, alive, users;
};
struct stream {
    struct context *context;
    unsigned long launched, done;
    int captured, alive;
    struct stream *next;
};
struct event {
    struct stream *stream;
    unsigned long at;
};

static struct context primary[2] = {{0, 1, 0}, {1, 1, 0}};
static struct stream *streams;
static _Thread_local struct context *stack[8];
static _Thread_local int depth;
static size_t free_bytes[2] = {1000000, 1000000};
static struct {
    CUdeviceptr address;
    size_t bytes;
    int device;
} blocks[256];

/* What was called, for tests to read. */
unsigned long still_launches, still_context_syncs, still_stream_syncs, still_event_syncs, still_nested;
CUresult still_next_result; /* of the next launch or synchronisation */
CUdeviceptr still_next_address; /* of memory from now on; 0: one that nobody has had */
void (*still_freed)(CUdeviceptr); /* called when an address is free, before whoever freed it hears of it */

static CUresult planned(void) {
    CUresult result = still_next_result;
    still_next_result = CUDA_SUCCESS;
    return result;
}

static struct context *current(void) { return depth > 0 ? stack[depth - 1] : NULL; }

static struct stream *stream_of(struct context *context) {
    struct stream *made = calloc(1, sizeof *made);
    *made = (struct stream){.context = context, .alive = 1, .next = streams};
    return streams = made;
}

/* The default stream of a context. */
static struct stream *found(CUstream stream) {
    if (stream > CU_STREAM_PER_THREAD) return stream;
    static struct stream *defaults[64];
    static struct context *owners[64];
    for (int i = 0; i < 64; i++) {
        if (owners[i] == NULL) {
            owners[i] = current();
            defaults[i] = stream_of(current());
        }
        if (owners[i] == current()) return defaults[i];
    }
    return NULL;
}

EXPORT void still_finish(CUstream stream) { found(stream)->done = found(stream)->launched; }

EXPORT CUresult cuInit(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGet(int *device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, int device) {
    memset(uuid, device + 1, sizeof *uuid);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = 1000000, CUDA_SUCCESS; }
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, int device) {
    return primary[device].users++, primary[device].alive = 1, *context = &primary[device], CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxGetState(int device, unsigned int *flags, int *active) {
    return *flags = 0, *active = primary[device].alive, CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    return primary[device].alive = --primary[device].users > 0, CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxReset_v2(int device) { return primary[device].alive = 0, CUDA_SUCCESS; }
EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, int device) {
    (void)flags;
    *context = calloc(1, sizeof **context);
    **context = (struct context){device, 1, 1};
    stack[depth++] = *context;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
    if (current() == context) depth--;
    return context->alive = 0, CUDA_SUCCESS;
}
EXPORT CUresult cuCtxDetach(CUcontext context) { return cuCtxDestroy_v2(context); }
EXPORT CUresult cuCtxGetCurrent(CUcontext *context) { return *context = current(), CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext context) { return stack[depth = 0] = context, depth = 1, CUDA_SUCCESS; }
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    if (context == NULL || !context->alive) return CUDA_ERROR_INVALID_CONTEXT;
    return stack[depth++] = context, CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) { return *context = stack[--depth], CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetDevice(int *device) {
    if (current() == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    return *device = current()->device, CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    return (void)flags, *stream = stream_of(current()), CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) { return stream->alive = 0, CUDA_SUCCESS; }
EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) { return *context = stream->context, CUDA_SUCCESS; }
EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    return *status = found(stream)->captured, CUDA_SUCCESS;
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    return (void)mode, found(stream)->captured = 1, CUDA_SUCCESS;
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    return *graph = NULL, found(stream)->captured = 0, CUDA_SUCCESS;
}
EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) { return *mode = 0, CUDA_SUCCESS; }

static CUresult launch(struct stream *stream) {
    CUresult result = planned();
    if (result != CUDA_SUCCESS) return result;
    still_launches++;
    if (!stream->captured) stream->launched++;
    return result;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int bx,
                               unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters,
                               void **extra) {
    (void)function, (void)x, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared, (void)parameters, (void)extra;
    return launch(found(stream));
}
EXPORT CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int bx,
                                    unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                    void **parameters, void **extra) {
    return cuLaunchKernel(function, x, y, z, bx, by, bz, shared, stream, parameters, extra);
}
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    /* through its own exported function, as drivers do that are not linked symbolically */
    still_nested++;
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, config->stream, parameters, extra);
}
EXPORT CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) { return (void)graph, launch(found(stream)); }
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    return (void)to, (void)from, (void)bytes, launch(found(stream));
}
EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    return (void)to, (void)value, (void)count, launch(found(NULL));
}

static int spoils_a_capture(struct context *context) {
    for (struct stream *each = streams; each != NULL; each = each->next)
        if (each->context == context && each->captured) return 1;
    return 0;
}

EXPORT CUresult cuCtxSynchronize(void) {
    CUresult result = planned();
    if (result != CUDA_SUCCESS) return result;
    if (spoils_a_capture(current())) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    still_context_syncs++;
    for (struct stream *each = streams; each != NULL; each = each->next)
        if (each->context == current()) each->done = each->launched;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    CUresult result = planned();
    if (result != CUDA_SUCCESS) return result;
    if (found(stream)->captured) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    still_stream_syncs++;
    still_finish(stream);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamQuery(CUstream stream) {
    return found(stream)->done == found(stream)->launched ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    CUresult result = launch(found(NULL));
    return (void)to, (void)from, (void)bytes, still_finish(NULL), result;
}
EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    return (void)flags, *event = calloc(1, sizeof **event), CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent event) { return free(event), CUDA_SUCCESS; }
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    return *event = (struct event){found(stream), found(stream)->launched}, CUDA_SUCCESS;
}
EXPORT CUresult cuEventQuery(CUevent event) {
    return event->stream == NULL || event->stream->done >= event->at ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORT CUresult cuEventSynchronize(CUevent event) {
    still_event_syncs++;
    if (event->stream != NULL && event->stream->done < event->at) event->stream->done = event->at;
    return CUDA_SUCCESS;
}

static CUresult take(CUdeviceptr *address, size_t bytes) {
    static CUdeviceptr next = 0x100000;
    int device = current()->device, place = 0;
    if (bytes > free_bytes[device]) return CUDA_ERROR_OUT_OF_MEMORY;
    while (blocks[place].bytes != 0) place++;
    free_bytes[device] -= bytes;
    *address = still_next_address ? still_next_address : (next += 0x1000);
    blocks[place].address = *address, blocks[place].bytes = bytes, blocks[place].device = device;
    return CUDA_SUCCESS;
}
static CUresult give_back(CUdeviceptr address) {
    for (int i = 0; i < 256; i++)
        if (blocks[i].bytes != 0 && blocks[i].address == address) {
            free_bytes[blocks[i].device] += blocks[i].bytes;
            blocks[i].bytes = 0;
            if (still_freed != NULL) still_freed(address);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) { return take(address, bytes); }
EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags) {
    return (void)flags, take(address, bytes);
}
EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element) {
    return (void)element, *pitch = (width + 511) / 512 * 512, cuMemAlloc_v2(address, *pitch * height); /* as launches do */
}
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return (void)stream, take(address, bytes);
}
EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return (void)pool, (void)stream, take(address, bytes);
}
EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, CUstream stream) {
    return cuMemAllocAsync(address, bytes, stream);
}
EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return cuMemAllocFromPoolAsync(address, bytes, pool, stream);
}
EXPORT CUresult cuMemCreate(uint64_t *handle, size_t bytes, const void *properties, uint64_t flags) {
    return (void)properties, (void)flags, take((CUdeviceptr *)handle, bytes);
}
EXPORT CUresult cuMemRetainAllocationHandle(uint64_t *handle, void *address) {
    return *handle = (uint64_t)(uintptr_t)address, CUDA_SUCCESS;
}
static int releases;
EXPORT CUresult cuMemRelease(uint64_t handle) { return releases++, (void)give_back(handle), CUDA_SUCCESS; }
EXPORT CUresult cuArrayCreate_v2(CUarray *array, const void *about) {
    const size_t *size = about;
    return take((CUdeviceptr *)array, size[0] * (size[1] ? size[1] : 1) * 4);
}
EXPORT CUresult cuArrayDestroy(CUarray array) { return give_back((CUdeviceptr)(uintptr_t)array); }
/* What these need is the gate's own reckoning: here it is a byte. */
EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const void *about) { return (void)about, take((CUdeviceptr *)array, 1); }
EXPORT CUresult cuMipmappedArrayCreate(void **array, const void *about, unsigned int levels) {
    return (void)about, (void)levels, take((CUdeviceptr *)array, 1);
}
EXPORT CUresult cuMipmappedArrayDestroy(void *array) { return give_back((CUdeviceptr)(uintptr_t)array); }
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) { return give_back(address); }
EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) { return (void)stream, give_back(address); }
EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) { return cuMemFreeAsync(address, stream); }
EXPORT CUresult cuMemGetInfo_v2(size_t *free_now, size_t *total) {
    return *free_now = free_bytes[current()->device], *total = 1000000, CUDA_SUCCESS;
}

/* As the driver's: by base name, it knows which version is meant. */
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status) {
    (void)version;
    *address = NULL;
    if (strcmp(name, "cuLaunchKernel") == 0)
        *address = flags & CU_GET_PROC_ADDRESS_PER_THREAD ? (void *)cuLaunchKernel_ptsz : (void *)cuLaunchKernel;
    if (strcmp(name, "cuMemAlloc") == 0) *address = (void *)cuMemAlloc_v2;
    if (strcmp(name, "cuInit") == 0) *address = (void *)cuInit;
    if (strcmp(name, "cuGetProcAddress") == 0) *address = (void *)cuGetProcAddress_v2;
    if (status != NULL) *status = 0;
    return *address == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
EXPORT CUresult cuGetProcAddress(const char *name, void **address, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, address, version, flags, NULL);
}

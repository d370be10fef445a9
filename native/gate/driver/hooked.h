/* Every function of the driver that programs get from us instead. Old versions for 32-bit addresses are left alone. */
#ifndef GPUYARD_GATE_HOOKED_H
#define GPUYARD_GATE_HOOKED_H

#include "../../cuda/abi.h"

/* A function, and its version for programs whose default stream is the thread's own. */
#define WITH_STREAMS(X, name) X(name) X(name##_ptsz)
#define WITH_DEFAULT(X, name) X(name) X(name##_ptds)

#define HOOKED_LAUNCHES(X) \
    WITH_STREAMS(X, cuLaunchKernel) WITH_STREAMS(X, cuLaunchKernelEx) WITH_STREAMS(X, cuLaunchCooperativeKernel) \
    X(cuLaunch) X(cuLaunchGrid) X(cuLaunchGridAsync) WITH_STREAMS(X, cuGraphLaunch)

#define HOOKED_QUEUED_COPIES(X) \
    WITH_STREAMS(X, cuMemcpyAsync) WITH_STREAMS(X, cuMemcpyPeerAsync) WITH_STREAMS(X, cuMemcpyHtoDAsync_v2) \
    WITH_STREAMS(X, cuMemcpyDtoHAsync_v2) WITH_STREAMS(X, cuMemcpyDtoDAsync_v2) WITH_STREAMS(X, cuMemcpyHtoAAsync_v2) \
    WITH_STREAMS(X, cuMemcpyAtoHAsync_v2) WITH_STREAMS(X, cuMemcpy2DAsync_v2) WITH_STREAMS(X, cuMemcpy3DAsync_v2) \
    WITH_STREAMS(X, cuMemcpy3DPeerAsync)

#define HOOKED_COPIES(X) \
    WITH_DEFAULT(X, cuMemcpy) WITH_DEFAULT(X, cuMemcpyPeer) WITH_DEFAULT(X, cuMemcpyHtoD_v2) \
    WITH_DEFAULT(X, cuMemcpyDtoH_v2) WITH_DEFAULT(X, cuMemcpyDtoD_v2) WITH_DEFAULT(X, cuMemcpyDtoA_v2) \
    WITH_DEFAULT(X, cuMemcpyAtoD_v2) WITH_DEFAULT(X, cuMemcpyHtoA_v2) WITH_DEFAULT(X, cuMemcpyAtoH_v2) \
    WITH_DEFAULT(X, cuMemcpyAtoA_v2) WITH_DEFAULT(X, cuMemcpy2D_v2) WITH_DEFAULT(X, cuMemcpy2DUnaligned_v2) \
    WITH_DEFAULT(X, cuMemcpy3D_v2) WITH_DEFAULT(X, cuMemcpy3DPeer)

#define HOOKED_FILLS(X) \
    WITH_STREAMS(X, cuMemsetD8Async) WITH_STREAMS(X, cuMemsetD16Async) WITH_STREAMS(X, cuMemsetD32Async) \
    WITH_STREAMS(X, cuMemsetD2D8Async) WITH_STREAMS(X, cuMemsetD2D16Async) WITH_STREAMS(X, cuMemsetD2D32Async) \
    WITH_DEFAULT(X, cuMemsetD8_v2) WITH_DEFAULT(X, cuMemsetD16_v2) WITH_DEFAULT(X, cuMemsetD32_v2) \
    WITH_DEFAULT(X, cuMemsetD2D8_v2) WITH_DEFAULT(X, cuMemsetD2D16_v2) WITH_DEFAULT(X, cuMemsetD2D32_v2)

#define HOOKED_SYNCHRONISATIONS(X) \
    WITH_STREAMS(X, cuStreamSynchronize) WITH_STREAMS(X, cuStreamQuery) X(cuCtxSynchronize) X(cuCtxSynchronize_v2) \
    X(cuEventSynchronize) X(cuEventQuery)

#define HOOKED_STREAMS(X) \
    X(cuStreamDestroy) X(cuStreamDestroy_v2) WITH_STREAMS(X, cuStreamBeginCapture) \
    WITH_STREAMS(X, cuStreamBeginCapture_v2) WITH_STREAMS(X, cuStreamBeginCaptureToGraph) \
    WITH_STREAMS(X, cuStreamEndCapture)

#define HOOKED_CONTEXTS(X) \
    X(cuCtxDestroy) X(cuCtxDestroy_v2) X(cuCtxDetach) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxReset_v2) \
    X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxRelease_v2)

#define HOOKED_MEMORY(X) \
    X(cuMemAlloc_v2) X(cuMemAllocManaged) X(cuMemAllocPitch_v2) WITH_STREAMS(X, cuMemAllocAsync) \
    WITH_STREAMS(X, cuMemAllocFromPoolAsync) X(cuMemFree_v2) WITH_STREAMS(X, cuMemFreeAsync) X(cuMemCreate) \
    X(cuMemRetainAllocationHandle) X(cuMemRelease) X(cuArrayCreate_v2) X(cuArray3DCreate_v2) X(cuArrayDestroy) \
    X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy) X(cuMemGetInfo_v2) X(cuDeviceTotalMem_v2)

#define HOOKED(X) \
    HOOKED_LAUNCHES(X) HOOKED_QUEUED_COPIES(X) HOOKED_COPIES(X) HOOKED_FILLS(X) HOOKED_SYNCHRONISATIONS(X) \
    HOOKED_STREAMS(X) HOOKED_CONTEXTS(X) HOOKED_MEMORY(X) X(cuGetProcAddress) X(cuGetProcAddress_v2)

/* What else of the driver we call. */
#define CALLED(X) \
    X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuStreamGetCtx) \
    X(cuStreamIsCapturing) X(cuThreadExchangeStreamCaptureMode) X(cuDeviceGetUuid) X(cuDeviceGetUuid_v2) \
    X(cuDevicePrimaryCtxGetState) X(cuDevicePrimaryCtxRetain) X(cuEventCreate) X(cuEventRecord) X(cuEventDestroy_v2)

#define NUMBER(name) NUMBER_##name,
enum driver_number { HOOKED(NUMBER) HOOKED_COUNT, CALLED_BEFORE = HOOKED_COUNT - 1, CALLED(NUMBER) DRIVER_COUNT };
#undef NUMBER

#endif

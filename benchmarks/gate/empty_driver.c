/* A driver that does nothing, so that what a launch costs is what stands before it. */
#include "abi.h"

static int the_context, *current;

EXPORT CUresult cuInit(unsigned int flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return *uuid = (CUuuid){{(unsigned char)device}}, CUDA_SUCCESS; }
EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    return (void)flags, (void)device, *context = (CUcontext)(void *)(current = &the_context), CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext *context) { return *context = (CUcontext)(void *)current, CUDA_SUCCESS; }
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) { return (void)context, CUDA_SUCCESS; }
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) { return cuCtxGetCurrent(context); }
EXPORT CUresult cuCtxGetDevice(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }
EXPORT CUresult cuCtxSynchronize(void) { return CUDA_SUCCESS; }
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int bx,
                               unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters,
                               void **extra) {
    (void)function, (void)x, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)parameters;
    return extra == NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

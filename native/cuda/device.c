/* What a program may ask about a GPU. Figures beyond those of its kind follow its compute capability, or are the same
 * for all, as in gpuyard/emulation/torch/cuda_api.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gpu.h"
#include "limits_of_gpus.h"

enum { KIB = 1024 };

#define FIND(device, gpu)                          \
    struct gpu *gpu;                               \
    do {                                           \
        CUresult found_ = find_gpu(device, &gpu);  \
        if (found_ != CUDA_SUCCESS) return found_; \
    } while (0)

EXPORT CUresult cuDeviceGetCount(int *count) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    *count = (int)gpu_count();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    FIND(ordinal, gpu);
    if (device == NULL) return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdevice)gpu->index;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    FIND(device, gpu);
    if (name == NULL || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", gpu->kind->name);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    FIND(device, gpu);
    if (bytes == NULL) return CUDA_ERROR_INVALID_VALUE;
    *bytes = gpu->kind->memory_bytes;
    return CUDA_SUCCESS;
}

/* Reads "GPU-xxxxxxxx-xxxx-…", which NVML shows, into bytes. */
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    FIND(device, gpu);
    if (uuid == NULL) return CUDA_ERROR_INVALID_VALUE;
    unsigned int used = 0;
    for (const char *digit = gpu->uuid + strlen("GPU-"); *digit != '\0' && used < sizeof uuid->bytes;) {
        char pair[3] = {digit[0], digit[1], '\0'};
        if (*digit == '-') {
            digit++;
            continue;
        }
        uuid->bytes[used++] = (unsigned char)strtoul(pair, NULL, 16);
        digit += 2;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

/* Each GPU sits alone on a bus of its own; bus 0 is the host's. */
static int bus(const struct gpu *gpu) { return (int)gpu->slot + 1; }

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
    FIND(device, gpu);
    if (id == NULL || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(id, (size_t)length, "0000:%02X:00.0", bus(gpu));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (device == NULL || id == NULL) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < gpu_count(); i++) {
        char own[16], without_domain[16];
        snprintf(own, sizeof own, "0000:%02X:00.0", bus(gpu_at(i)));
        snprintf(without_domain, sizeof without_domain, "%02X:00.0", bus(gpu_at(i)));
        if (strcasecmp(id, own) != 0 && strcasecmp(id, without_domain) != 0) continue;
        *device = (CUdevice)i;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    FIND(device, gpu);
    if (major == NULL || minor == NULL) return CUDA_ERROR_INVALID_VALUE;
    *major = gpu->kind->compute_major;
    *minor = gpu->kind->compute_minor;
    return CUDA_SUCCESS;
}

struct attribute {
    int number, value;
};

/* The same for all kinds. What is not listed is 0: not there, or not supported. */
static const struct attribute COMMON[] = {
    {1, THREADS_PER_BLOCK},           /* threads of a block */
    {2, THREADS_PER_BLOCK},           /* along x */
    {3, THREADS_PER_BLOCK},           /* along y */
    {4, THREADS_PER_BLOCK_Z},         /* along z */
    {5, BLOCKS_PER_GRID_X},           /* blocks of a grid along x */
    {6, BLOCKS_PER_GRID},             /* along y */
    {7, BLOCKS_PER_GRID},             /* along z */
    {8, SHARED_PER_BLOCK},            /* shared memory of a block */
    {9, 64 * KIB},                    /* constant memory */
    {10, WARP_SIZE},                  /* threads of a warp */
    {11, 2147483647},                 /* largest pitch of a copy */
    {12, 65536},                      /* registers of a block */
    {14, 512},                        /* alignment of textures */
    {15, 1},                          /* copies overlap with kernels */
    {19, 1},                          /* memory of the host can be mapped */
    {30, 512},                        /* alignment of surfaces */
    {31, 1},                          /* kernels overlap */
    {37, 4096},                       /* bits of the memory bus */
    {38, 6 << 20},                    /* L2 cache */
    {39, THREADS_PER_MULTIPROCESSOR}, /* threads of a multiprocessor */
    {40, 2},                          /* copy engines */
    {41, 1},                          /* host and GPUs share their addresses */
    {51, 32},                         /* alignment of pitches of textures */
    {78, 1},                          /* streams have priorities */
    {79, 1},                          /* L1 caches global memory */
    {80, 1},                          /* and local memory */
    {81, SHARED_PER_MULTIPROCESSOR},  /* shared memory of a multiprocessor */
    {82, 65536},                      /* registers of a multiprocessor */
    {83, 1},                          /* managed memory */
    {89, 1},                          /* which host and GPU use at once */
    {90, 1},                          /* kernels can be preempted */
    {91, 1},                          /* registered memory keeps its address */
    {97, SHARED_PER_MULTIPROCESSOR},  /* shared memory of a block that asks for more */
    {99, 1},                          /* memory can be registered */
    {106, BLOCKS_PER_MULTIPROCESSOR}, /* blocks of a multiprocessor */
    {111, KIB},                       /* shared memory that each block takes besides */
    {115, 1},                         /* memory pools */
    {131, -1},                        /* no NUMA node is its own */
    {134, -1},                        /* nor near to it */
};

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    FIND(device, gpu);
    if (value == NULL || attribute < 1) return CUDA_ERROR_INVALID_VALUE;
    const struct attribute own[] = {
        {13, gpu->kind->core_mhz * 1000},   {16, gpu->kind->multiprocessors}, {33, bus(gpu)},
        {36, gpu->kind->memory_mhz * 1000}, {75, gpu->kind->compute_major},   {76, gpu->kind->compute_minor},
    };
    *value = 0;
    for (size_t i = 0; i < sizeof COMMON / sizeof *COMMON; i++)
        if (COMMON[i].number == attribute) *value = COMMON[i].value;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].number == attribute) *value = own[i].value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device) {
    FIND(device, gpu);
    if (properties == NULL) return CUDA_ERROR_INVALID_VALUE;
    int *fields = (int *)properties;
    static const int numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cuDeviceGetAttribute(&fields[i], numbers[i], (CUdevice)gpu->index);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetExecAffinitySupport(int *supported, int type, CUdevice device) {
    FIND(device, gpu);
    (void)gpu, (void)type;
    if (supported == NULL) return CUDA_ERROR_INVALID_VALUE;
    *supported = 0;
    return CUDA_SUCCESS;
}

/* The emulated machine as this process has opened it. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu.h"
#include "kernel_time.h"
#include "message.h"
#include "timeline.h"

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct settings settings;
static struct gpu gpus[MOST_GPUS];
static _Atomic int state; /* 0: not opened; 1: open; 2: forked from a process that had it open */

static void forked(void) {
    pthread_mutex_init(&opening, NULL);
    if (state == 1) state = 2;
}

static CUresult open_now(void) {
    if (!read_settings(&settings)) return CUDA_ERROR_NO_DEVICE;
    if (!read_kernel_times()) return CUDA_ERROR_INVALID_VALUE;
    if (settings.visible_count == 0) return CUDA_ERROR_NO_DEVICE;
    int error = timeline_open(&settings);
    for (unsigned int i = 0; i < settings.visible_count && error == GPUYARD_OK; i++) {
        struct gpu *gpu = &gpus[i];
        *gpu = (struct gpu){.index = i, .slot = settings.visible[i], .kind = settings.gpus[settings.visible[i]]};
        pthread_mutex_init(&gpu->lock, NULL);
        error = timeline_uuid(gpu->slot, gpu->uuid);
    }
    if (error != GPUYARD_OK) {
        complain("node %s: %s", settings.node, gpuyard_error_text(error));
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    pthread_atfork(NULL, NULL, forked);
    atexit(timeline_close);
    state = 1;
    return CUDA_SUCCESS;
}

CUresult machine_open(void) {
    pthread_mutex_lock(&opening);
    CUresult result = state == 0 ? open_now() : machine_state();
    pthread_mutex_unlock(&opening);
    return result;
}

CUresult machine_state(void) { return state == 1 ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

unsigned int gpu_count(void) { return settings.visible_count; }

struct gpu *gpu_at(unsigned int index) { return &gpus[index]; }

CUresult find_gpu(CUdevice device, struct gpu **gpu) {
    *gpu = NULL;
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (device < 0 || (unsigned int)device >= gpu_count()) return CUDA_ERROR_INVALID_DEVICE;
    *gpu = gpu_at((unsigned int)device);
    return CUDA_SUCCESS;
}

const struct settings *machine_settings(void) { return &settings; }

CUresult gpu_connect(struct gpu *gpu) {
    pthread_mutex_lock(&gpu->lock);
    int error = gpu->connected ? GPUYARD_OK : timeline_connect(gpu->slot, &gpu->client);
    gpu->connected = gpu->connected || error == GPUYARD_OK;
    pthread_mutex_unlock(&gpu->lock);
    if (error == GPUYARD_OK) return CUDA_SUCCESS;
    complain("GPU %u: %s", gpu->slot, gpuyard_error_text(error));
    return error == GPUYARD_ERROR_MEMORY_TAKEN ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
}

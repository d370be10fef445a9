/* Reads the node's file. It is read, never mapped: should it shrink, a read fails where a mapping would kill us. */
#define _GNU_SOURCE
#include "node.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "find.h"
#include "meter.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users;
static int file = -1;

struct nvmlDevice {
    char unused;
};
static struct nvmlDevice handles[MOST_GPUS];

nvmlReturn_t node_open(void) {
    pthread_mutex_lock(&gate);
    if (users == 0) file = find_node();
    nvmlReturn_t result = file < 0 ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS;
    if (result == NVML_SUCCESS) users++;
    pthread_mutex_unlock(&gate);
    struct gpuyard_header header;
    if (result == NVML_SUCCESS && (result = node_header(&header)) != NVML_SUCCESS) node_close();
    return result;
}

nvmlReturn_t node_close(void) {
    pthread_mutex_lock(&gate);
    nvmlReturn_t result = users == 0 ? NVML_ERROR_UNINITIALIZED : NVML_SUCCESS;
    if (result == NVML_SUCCESS && --users == 0) {
        close(file);
        file = -1;
    }
    pthread_mutex_unlock(&gate);
    return result;
}

/* A node that has ended leaves a file without a name; should it have come back, go on with the new one. */
static void follow(void) {
    struct stat here;
    pthread_mutex_lock(&gate);
    if (file >= 0 && fstat(file, &here) == 0 && here.st_nlink == 0) {
        int found = find_node();
        if (found >= 0) {
            dup3(found, file, O_CLOEXEC); /* threads that read meanwhile keep a valid number */
            close(found);
        }
    }
    pthread_mutex_unlock(&gate);
}

static nvmlReturn_t fetch(void *record, size_t length, size_t offset) {
    if (file < 0) return NVML_ERROR_UNINITIALIZED;
    return pread(file, record, length, (off_t)offset) == (ssize_t)length ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t node_header(struct gpuyard_header *header) {
    follow();
    nvmlReturn_t result = fetch(header, sizeof *header, 0);
    if (result != NVML_SUCCESS) return result;
    if (header->magic != GPUYARD_MAGIC) return NVML_ERROR_DRIVER_NOT_LOADED; /* it is only just being made */
    if (header->version != GPUYARD_VERSION) return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    if (header->gpu_count > MOST_GPUS) header->gpu_count = MOST_GPUS;
    return NVML_SUCCESS;
}

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static size_t gpu_offset(unsigned int index) { return GPUYARD_HEADER_LENGTH + (size_t)index * GPUYARD_GPU_STRIDE; }

nvmlReturn_t node_gpu(unsigned int index, struct gpuyard_gpu *gpu) {
    struct gpuyard_header header;
    nvmlReturn_t result = node_header(&header);
    if (result == NVML_SUCCESS && index >= header.gpu_count) result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) result = fetch(gpu, sizeof *gpu, gpu_offset(index));
    if (result != NVML_SUCCESS) return result;
    gpu->name[sizeof gpu->name - 1] = gpu->uuid[sizeof gpu->uuid - 1] = gpu->key[sizeof gpu->key - 1] = '\0';
    return NVML_SUCCESS;
}

nvmlReturn_t node_gpu_use(unsigned int index, struct gpu_use *use) {
    struct gpuyard_header header;
    struct gpuyard_gpu gpu;
    struct gpuyard_client client;
    nvmlReturn_t result = node_header(&header);
    if (result == NVML_SUCCESS) result = node_gpu(index, &gpu);
    if (result != NVML_SUCCESS) return result;
    double age = (seconds(CLOCK_MONOTONIC) - header.origin) * header.speed, now = header.origin + age;
    double window = GPUYARD_WINDOW_S * header.speed;
    unsigned long long time_us = (unsigned long long)(seconds(CLOCK_REALTIME) * 1e6);
    *use = (struct gpu_use){.time_us = time_us, .age = age, .done = gpu.retired_busy};
    for (unsigned int number = 0; number < GPUYARD_MAX_CLIENTS; number++) {
        size_t offset = gpu_offset(index) + GPUYARD_GPU_LENGTH + (size_t)number * GPUYARD_CLIENT_LENGTH;
        if ((gpu.connected >> number & 1) == 0 || fetch(&client, sizeof client, offset) != NVML_SUCCESS) continue;
        use->done += work_done(&client, now); /* the work of the dead was done all the same */
        if (!is_locked(file, (off_t)offset)) continue;
        struct client_use *client_use = &use->clients[use->count++];
        *client_use = (struct client_use){(unsigned int)client.pid, client.reserved + gpu.context_bytes,
                                  utilisation(&client, now, window)};
        use->memory += client_use->memory;
        use->busy += client_use->busy;
    }
    if (use->busy > 1) use->busy = 1;
    if (use->memory > gpu.memory_bytes) use->memory = gpu.memory_bytes;
    return NVML_SUCCESS;
}

nvmlDevice_t node_handle(unsigned int index) { return &handles[index]; }

nvmlReturn_t node_index(nvmlDevice_t device, unsigned int *index) {
    struct gpuyard_header header;
    nvmlReturn_t result = node_header(&header);
    if (result != NVML_SUCCESS) return result;
    for (*index = 0; *index < header.gpu_count; (*index)++)
        if (device == &handles[*index]) return NVML_SUCCESS;
    return NVML_ERROR_INVALID_ARGUMENT;
}

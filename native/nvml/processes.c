/* Who uses a GPU, with how much memory, and for how much of its time. */
#include <stdbool.h>
#include <stddef.h>

#include "device.h"

#define NO_INSTANCE 0xFFFFFFFFu /* the GPU is not divided */

/* How a caller learns how long its list must be, or that the one it gave is long enough. */
static nvmlReturn_t room_for(unsigned int needed, unsigned int *count, const void *list) {
    unsigned int room = list == NULL ? 0 : *count;
    *count = needed;
    return room < needed ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t look_around(nvmlDevice_t device, const unsigned int *count, struct gpuyard_gpu_view *use) {
    unsigned int index;
    nvmlReturn_t result = count == NULL ? NVML_ERROR_INVALID_ARGUMENT : node_index(device, &index);
    return result == NVML_SUCCESS ? node_gpu_use(index, use) : result;
}

static unsigned int pid_of(const struct gpuyard_gpu_view *use, unsigned int client) {
    return (unsigned int)use->clients[client].pid;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                         nvmlProcessInfo_v1_t *list) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = look_around(device, count, &use);
    if (result == NVML_SUCCESS) result = room_for((unsigned int)use.client_count, count, list);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < use.client_count; i++)
        list[i] = (nvmlProcessInfo_v1_t){pid_of(&use, i), use.clients[i].memory_bytes};
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                            nvmlProcessInfo_v2_t *list) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = look_around(device, count, &use);
    if (result == NVML_SUCCESS) result = room_for((unsigned int)use.client_count, count, list);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < use.client_count; i++)
        list[i] = (nvmlProcessInfo_v2_t){pid_of(&use, i), use.clients[i].memory_bytes, NO_INSTANCE, NO_INSTANCE};
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                            nvmlProcessInfo_v2_t *list) {
    return nvmlDeviceGetComputeRunningProcesses_v2(device, count, list);
}

/* Emulated programs neither draw nor go through MPS. */
static nvmlReturn_t nobody(nvmlDevice_t device, unsigned int *count) {
    unsigned int index;
    nvmlReturn_t result = count == NULL ? NVML_ERROR_INVALID_ARGUMENT : node_index(device, &index);
    if (result == NVML_SUCCESS) *count = 0;
    return result;
}

#define NOBODY(name)                                                                      \
    EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, const void *list) { \
        (void)list;                                                                       \
        return nobody(device, count);                                                     \
    }
NOBODY(nvmlDeviceGetGraphicsRunningProcesses)
NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v2)
NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v3)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v3)

EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = CHECK_VERSION(list, nvmlProcessDetailList_v1_t, 1);
    if (result != NVML_SUCCESS) return result;
    bool wanted = list->mode == NVML_PROCESS_MODE_COMPUTE || list->mode == NVML_PROCESS_MODE_ALL;
    if (!wanted) return nobody(device, &list->count);
    result = look_around(device, &list->count, &use);
    if (result == NVML_SUCCESS) result = room_for((unsigned int)use.client_count, &list->count, list->processes);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < use.client_count; i++) {
        uint64_t bytes = use.clients[i].memory_bytes;
        list->processes[i] = (nvmlProcessDetail_v1_t){pid_of(&use, i), bytes, NO_INSTANCE, NO_INSTANCE, 0};
    }
    return result;
}

static unsigned long long time_us(const struct gpuyard_gpu_view *use) {
    return (unsigned long long)(use->unix_time * 1e6);
}

/* Looks at everybody now; as with the real library, nothing newer than `since` is told apart from an empty list. */
static nvmlReturn_t measure(nvmlDevice_t device, unsigned long long since, const unsigned int *count,
                            struct gpuyard_gpu_view *use) {
    nvmlReturn_t result = look_around(device, count, use);
    if (result == NVML_SUCCESS && (use->client_count == 0 || time_us(use) <= since)) result = NVML_ERROR_NOT_FOUND;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *list,
                                                    unsigned int *count, unsigned long long since) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = measure(device, since, count, &use);
    if (result == NVML_SUCCESS) result = room_for((unsigned int)use.client_count, count, list);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < use.client_count; i++) {
        unsigned int pid = pid_of(&use, i), share = percent(use.clients[i].utilisation);
        list[i] = (nvmlProcessUtilizationSample_t){pid, time_us(&use), share, share, 0, 0};
    }
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                          nvmlProcessesUtilizationInfo_v1_t *list) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = CHECK_VERSION(list, nvmlProcessesUtilizationInfo_v1_t, 1);
    if (result == NVML_SUCCESS) result = measure(device, list->last_seen_us, &list->count, &use);
    if (result == NVML_SUCCESS) result = room_for((unsigned int)use.client_count, &list->count, list->samples);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < use.client_count; i++) {
        unsigned int pid = pid_of(&use, i), share = percent(use.clients[i].utilisation);
        list->samples[i] = (nvmlProcessUtilizationInfo_v1_t){time_us(&use), pid, share, share, 0, 0, 0, 0};
    }
    return result;
}

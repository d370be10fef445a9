/* How programs get hold of a GPU: by index, UUID, serial number or place on the bus. */
#include <stdio.h>
#include <string.h>

#include "device.h"

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    struct gpuyard_description about;
    nvmlReturn_t result = count == NULL ? NVML_ERROR_INVALID_ARGUMENT : node_description(&about);
    if (result == NVML_SUCCESS) *count = (unsigned int)about.gpu_count;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) { return nvmlDeviceGetCount_v2(count); }

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    struct watched_gpu gpu;
    nvmlReturn_t result = device == NULL ? NVML_ERROR_INVALID_ARGUMENT : node_gpu(index, &gpu);
    if (result == NVML_SUCCESS) *device = node_handle(index);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* Finds the first GPU of which `is_it` says that the text means it. */
typedef int matcher(unsigned int index, const struct watched_gpu *gpu, const char *text);

static nvmlReturn_t find(matcher *is_it, const char *text, nvmlDevice_t *device) {
    struct gpuyard_description about;
    struct watched_gpu gpu;
    nvmlReturn_t result = text == NULL || device == NULL ? NVML_ERROR_INVALID_ARGUMENT : node_description(&about);
    for (unsigned int index = 0; result == NVML_SUCCESS && index < about.gpu_count; index++) {
        result = node_gpu(index, &gpu);
        if (result == NVML_SUCCESS && is_it(index, &gpu, text)) {
            *device = node_handle(index);
            return NVML_SUCCESS;
        }
    }
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : result;
}

static int has_uuid(unsigned int index, const struct watched_gpu *gpu, const char *text) {
    (void)index;
    return strcmp(gpu->uuid, text) == 0;
}

static int has_serial(unsigned int index, const struct watched_gpu *gpu, const char *text) {
    char serial[SERIAL_LENGTH];
    (void)index;
    write_serial(gpu, serial);
    return strcmp(serial, text) == 0;
}

/* Bus ids come short or long, in either case and with any number of leading zeros: what they say counts. */
static int has_bus_id(unsigned int index, const struct watched_gpu *gpu, const char *text) {
    unsigned int domain = 0, bus, slot, function;
    (void)gpu;
    int with_domain = sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4;
    if (!with_domain && sscanf(text, "%x:%x.%x", &bus, &slot, &function) != 3) return 0;
    return (!with_domain || domain == 0) && bus == pci_bus(index) && slot == 0 && function == 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    return find(has_uuid, uuid, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_v1_t *uuid, nvmlDevice_t *device) {
    nvmlReturn_t result = CHECK_VERSION(uuid, nvmlUUID_v1_t, 1);
    if (result != NVML_SUCCESS) return result;
    if (uuid->type == NVML_UUID_TYPE_BINARY) return NVML_ERROR_NOT_SUPPORTED;
    char text[sizeof uuid->value.text + 1] = "";
    memcpy(text, uuid->value.text, sizeof uuid->value.text);
    return find(has_uuid, text, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
    return find(has_serial, serial, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    return find(has_bus_id, bus_id, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device) {
    return find(has_bus_id, bus_id, device);
}

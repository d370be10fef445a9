/* What a GPU is: answers that do not change while the node lives. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

#define NVIDIA_VENDOR_ID 0x10DE /* the device part of the id is left zero: no real chip is there */
#define DISPLAY_CONTROLLER 0x03
#define CONTROLLER_3D 0x02

/* Twelve decimal digits from the last ten hexadecimal ones of the UUID: as unique as that. */
void write_serial(const struct watched_gpu *gpu, char serial[SERIAL_LENGTH]) {
    size_t length = strlen(gpu->uuid), tail = length < 10 ? length : 10;
    unsigned long long number = strtoull(gpu->uuid + length - tail, NULL, 16);
    snprintf(serial, SERIAL_LENGTH, "%013llu", number);
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned int length) {
    unsigned int index;
    struct watched_gpu gpu;
    nvmlReturn_t result = look_up(device, &index, &gpu);
    return result == NVML_SUCCESS ? copy_text(gpu.about.name, text, length) : result;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int length) {
    unsigned int index;
    struct watched_gpu gpu;
    nvmlReturn_t result = look_up(device, &index, &gpu);
    return result == NVML_SUCCESS ? copy_text(gpu.uuid, text, length) : result;
}

EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *text, unsigned int length) {
    unsigned int index;
    struct watched_gpu gpu;
    char serial[SERIAL_LENGTH];
    nvmlReturn_t result = look_up(device, &index, &gpu);
    if (result != NVML_SUCCESS) return result;
    write_serial(&gpu, serial);
    return copy_text(serial, text, length);
}

static unsigned int brand(const struct watched_gpu *gpu) {
    if (strstr(gpu->about.name, "GeForce")) return NVML_BRAND_GEFORCE;
    if (strstr(gpu->about.name, "Quadro RTX")) return NVML_BRAND_QUADRO_RTX;
    if (strstr(gpu->about.name, "Quadro")) return NVML_BRAND_QUADRO;
    return strstr(gpu->about.name, "Tesla") ? NVML_BRAND_TESLA : NVML_BRAND_NVIDIA;
}

static unsigned int architecture(const struct watched_gpu *gpu) {
    unsigned int capability = (unsigned int)(gpu->about.compute_major * 10 + gpu->about.compute_minor);
    if (capability >= 100) return NVML_DEVICE_ARCH_BLACKWELL;
    if (capability >= 90) return NVML_DEVICE_ARCH_HOPPER;
    if (capability >= 89) return NVML_DEVICE_ARCH_ADA;
    if (capability >= 80) return NVML_DEVICE_ARCH_AMPERE;
    if (capability >= 75) return NVML_DEVICE_ARCH_TURING;
    if (capability >= 70) return NVML_DEVICE_ARCH_VOLTA;
    if (capability >= 60) return NVML_DEVICE_ARCH_PASCAL;
    return capability >= 50 ? NVML_DEVICE_ARCH_MAXWELL : NVML_DEVICE_ARCH_KEPLER;
}

/* The generation of PCI Express that came with an architecture. */
static unsigned int pcie_generation(const struct watched_gpu *gpu) {
    if (gpu->about.compute_major >= 9) return 5;
    return gpu->about.compute_major == 8 ? 4 : 3;
}

ANSWER(nvmlDeviceGetIndex, unsigned int, index)
ANSWER(nvmlDeviceGetMinorNumber, unsigned int, index)
ANSWER(nvmlDeviceGetModuleId, unsigned int, index)
ANSWER(nvmlDeviceGetBoardId, unsigned int, pci_bus(index) << 8)
ANSWER(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
ANSWER(nvmlDeviceGetBrand, unsigned int, brand(&gpu))
ANSWER(nvmlDeviceGetArchitecture, unsigned int, architecture(&gpu))
ANSWER(nvmlDeviceGetBusType, unsigned int, NVML_BUS_TYPE_PCIE)
ANSWER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, pcie_generation(&gpu))
ANSWER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, pcie_generation(&gpu))
ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, pcie_generation(&gpu))
ANSWER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, 16)
ANSWER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, 16)
ANSWER(nvmlDeviceIsMigDeviceHandle, unsigned int, 0)
ANSWER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, 0)
ANSWER(nvmlDeviceGetDisplayMode, unsigned int, NVML_FEATURE_DISABLED)
ANSWER(nvmlDeviceGetDisplayActive, unsigned int, NVML_FEATURE_DISABLED)
ANSWER(nvmlDeviceGetPersistenceMode, unsigned int, NVML_FEATURE_ENABLED)
ANSWER(nvmlDeviceGetNumFans, unsigned int, 0)

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    unsigned int index;
    struct watched_gpu gpu;
    nvmlReturn_t result = !major || !minor ? NVML_ERROR_INVALID_ARGUMENT : look_up(device, &index, &gpu);
    if (result != NVML_SUCCESS) return result;
    *major = (int)gpu.about.compute_major;
    *minor = (int)gpu.about.compute_minor;
    return NVML_SUCCESS;
}

/* Fills what all versions of the PCI description have. */
static nvmlReturn_t describe_pci(nvmlDevice_t device, nvmlPciInfo_v1_t *info) {
    unsigned int index;
    nvmlReturn_t result = info == NULL ? NVML_ERROR_INVALID_ARGUMENT : node_index(device, &index);
    if (result != NVML_SUCCESS) return result;
    *info = (nvmlPciInfo_v1_t){.bus = pci_bus(index), .device_id = NVIDIA_VENDOR_ID};
    snprintf(info->bus_id_short, sizeof info->bus_id_short, "0000:%02X:00.0", info->bus);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t *info) {
    return describe_pci(device, info);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *info) {
    nvmlPciInfo_v1_t common;
    nvmlReturn_t result = info == NULL ? NVML_ERROR_INVALID_ARGUMENT : describe_pci(device, &common);
    if (result == NVML_SUCCESS) *info = (nvmlPciInfo_v2_t){.v1 = common};
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_v3_t *info) {
    nvmlPciInfo_v1_t common;
    nvmlReturn_t result = info == NULL ? NVML_ERROR_INVALID_ARGUMENT : describe_pci(device, &common);
    if (result != NVML_SUCCESS) return result;
    *info = (nvmlPciInfo_v3_t){.v1 = common};
    snprintf(info->bus_id, sizeof info->bus_id, "0000%s", common.bus_id_short);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *info) {
    nvmlPciInfo_v1_t common;
    nvmlReturn_t result = CHECK_VERSION(info, nvmlPciInfoExt_v1_t, 1);
    if (result == NVML_SUCCESS) result = describe_pci(device, &common);
    if (result != NVML_SUCCESS) return result;
    *info = (nvmlPciInfoExt_v1_t){.version = info->version, .bus = common.bus, .device_id = common.device_id,
                                  .base_class = DISPLAY_CONTROLLER, .sub_class = CONTROLLER_3D};
    snprintf(info->bus_id, sizeof info->bus_id, "0000%s", common.bus_id_short);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned int *level) {
    unsigned int first, second;
    nvmlReturn_t result = level == NULL ? NVML_ERROR_INVALID_ARGUMENT : node_index(one, &first);
    if (result == NVML_SUCCESS) result = node_index(other, &second);
    if (result == NVML_SUCCESS) *level = first == second ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_HOSTBRIDGE;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t other, int *same) {
    unsigned int level;
    if (same == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = nvmlDeviceGetTopologyCommonAncestor(one, other, &level);
    if (result == NVML_SUCCESS) *same = level == NVML_TOPOLOGY_INTERNAL;
    return result;
}

/* An emulated GPU is equally near to every processor of the machine. */
EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set) {
    unsigned int index;
    nvmlReturn_t result = set == NULL || words == 0 ? NVML_ERROR_INVALID_ARGUMENT : node_index(device, &index);
    if (result != NVML_SUCCESS) return result;
    const size_t bits = 8 * sizeof *set;
    const size_t processors = (size_t)sysconf(_SC_NPROCESSORS_CONF);
    memset(set, 0, words * sizeof *set);
    for (size_t i = 0; i < processors && i < words * bits; i++) set[i / bits] |= 1UL << i % bits;
    return NVML_SUCCESS;
}

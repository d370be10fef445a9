/* The library itself: starting, ending, versions and errors. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "device.h"

/* What a driver that knows every emulated kind of GPU would call itself. */
#define DRIVER_VERSION "580.00"
#define NVML_VERSION "13.580.00"
#define CUDA_VERSION 13000

EXPORT nvmlReturn_t nvmlInit_v2(void) { return node_open(); }

EXPORT nvmlReturn_t nvmlInit(void) { return nvmlInit_v2(); }

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags; /* they allow for the absence of GPUs, which no emulated node has */
    return nvmlInit_v2();
}

EXPORT nvmlReturn_t nvmlShutdown(void) { return node_close(); }

EXPORT const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
        case NVML_SUCCESS: return "Success";
        case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
        case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
        case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
        case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
        case NVML_ERROR_NOT_FOUND: return "Not Found";
        case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
        case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded (no emulated node, or several: gpuyard smi)";
        case NVML_ERROR_GPU_IS_LOST: return "GPU is lost (its emulated node has ended)";
        case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch (see gpuyard smi)";
        case NVML_ERROR_NO_DATA: return "No data";
        case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
        default: return "Unknown Error";
    }
}

nvmlReturn_t copy_text(const char *text, char *buffer, unsigned int length) {
    if (buffer == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    return copy_text(DRIVER_VERSION, text, length);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned int length) {
    return copy_text(NVML_VERSION, text, length);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    if (version == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *text, unsigned int length) {
    char path[64], name[4096] = "";
    if (text == NULL || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *command = fopen(path, "r");
    if (command == NULL) return NVML_ERROR_NOT_FOUND;
    name[fread(name, 1, sizeof name - 1, command)] = '\0'; /* arguments are told apart by zeros, so this is the first */
    fclose(command);
    snprintf(text, length, "%s", name);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlUnitGetCount(unsigned int *count) {
    if (count == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

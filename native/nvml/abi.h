/* The part of NVML's binary interface that this library answers: codes, structures and their versions. */
#ifndef GPUYARD_NVML_ABI_H
#define GPUYARD_NVML_ABI_H

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_NO_DATA = 21,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

/* A versioned structure carries its own size and its version's number in its first field. */
#define STRUCT_VERSION(type, number) ((unsigned int)sizeof(type) | ((number) << 24))
#define CHECK_VERSION(pointer, type, number)                  \
    ((pointer) == NULL ? NVML_ERROR_INVALID_ARGUMENT          \
     : (pointer)->version == STRUCT_VERSION(type, number) ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH)

typedef struct nvmlDevice *nvmlDevice_t;
typedef unsigned long long nvmlBytes_t;

enum { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO, NVML_CLOCK_COUNT };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_PSTATE_0 = 0 };
enum { NVML_FEATURE_DISABLED, NVML_FEATURE_ENABLED };
enum { NVML_COMPUTEMODE_DEFAULT = 0, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3 };
enum { NVML_TOPOLOGY_INTERNAL = 0, NVML_TOPOLOGY_HOSTBRIDGE = 30 };
enum { NVML_BUS_TYPE_PCIE = 2 };
enum { NVML_UUID_TYPE_ASCII = 1, NVML_UUID_TYPE_BINARY = 2 };
enum { NVML_PROCESS_MODE_COMPUTE = 0, NVML_PROCESS_MODE_ALL = 3 };
enum { NVML_VALUE_TYPE_UNSIGNED_INT = 1, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3 };
enum { NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION = 83, NVML_FI_DEV_POWER_AVERAGE = 185, NVML_FI_DEV_POWER_INSTANT = 186 };
enum { NVML_CLOCKS_EVENT_REASON_GPU_IDLE = 1 };
enum { NVML_BRAND_QUADRO = 1, NVML_BRAND_TESLA = 2, NVML_BRAND_QUADRO_RTX = 12, NVML_BRAND_NVIDIA = 14,
       NVML_BRAND_GEFORCE = 5 };
enum { NVML_DEVICE_ARCH_KEPLER = 2, NVML_DEVICE_ARCH_MAXWELL, NVML_DEVICE_ARCH_PASCAL, NVML_DEVICE_ARCH_VOLTA,
       NVML_DEVICE_ARCH_TURING, NVML_DEVICE_ARCH_AMPERE, NVML_DEVICE_ARCH_ADA, NVML_DEVICE_ARCH_HOPPER,
       NVML_DEVICE_ARCH_BLACKWELL };

/* Each version of the PCI description extends the one before; version 3 puts the long bus id where 2 had reserve. */
typedef struct {
    char bus_id_short[16];
    unsigned int domain, bus, device, device_id;
} nvmlPciInfo_v1_t;

typedef struct {
    nvmlPciInfo_v1_t v1;
    unsigned int subsystem_id, reserved[4];
} nvmlPciInfo_v2_t;

typedef struct {
    nvmlPciInfo_v1_t v1;
    unsigned int subsystem_id;
    char bus_id[32];
} nvmlPciInfo_v3_t;

typedef struct {
    unsigned int version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
    char bus_id[32];
} nvmlPciInfoExt_v1_t;

typedef struct {
    nvmlBytes_t total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    nvmlBytes_t total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned int pid;
    nvmlBytes_t used_memory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned int pid;
    nvmlBytes_t used_memory;
    unsigned int gpu_instance, compute_instance;
} nvmlProcessInfo_v2_t; /* version 3 has the same fields */

typedef struct {
    unsigned int pid;
    nvmlBytes_t used_memory;
    unsigned int gpu_instance, compute_instance;
    nvmlBytes_t protected_memory;
} nvmlProcessDetail_v1_t;

typedef struct {
    unsigned int version, mode, count;
    nvmlProcessDetail_v1_t *processes;
} nvmlProcessDetailList_v1_t;

typedef struct {
    unsigned int pid;
    unsigned long long time_us;
    unsigned int sm, memory, encoder, decoder;
} nvmlProcessUtilizationSample_t;

typedef struct {
    unsigned long long time_us;
    unsigned int pid, sm, memory, encoder, decoder, jpeg, optical_flow;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct {
    unsigned int version, count;
    unsigned long long last_seen_us;
    nvmlProcessUtilizationInfo_v1_t *samples;
} nvmlProcessesUtilizationInfo_v1_t;

typedef struct {
    unsigned int version, sensor;
    int celsius;
} nvmlTemperature_v1_t;

typedef struct {
    unsigned int version, type;
    union {
        char text[41];
        unsigned char bytes[16];
    } value;
} nvmlUUID_v1_t;

typedef union {
    double as_double;
    unsigned int as_uint;
    unsigned long long as_ulonglong;
} nvmlValue_t;

typedef struct {
    unsigned int field, scope;
    long long time_us, latency_us;
    unsigned int value_type;
    nvmlReturn_t result;
    nvmlValue_t value;
} nvmlFieldValue_t;

#endif

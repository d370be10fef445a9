/* What a GPU does: memory, utilisation, power, clocks. */
#include <stddef.h>

#include "device.h"

#define ENCODER_PERIOD_US 100000

/* Finds everybody at the GPU behind a handle. */
static nvmlReturn_t observe(nvmlDevice_t device, struct gpuyard_gpu_view *use) {
    unsigned int index;
    nvmlReturn_t result = node_index(device, &index);
    return result == NVML_SUCCESS ? node_gpu_use(index, use) : result;
}

static unsigned int nearest(double amount) { return (unsigned int)(amount + 0.5); }

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    unsigned int index;
    struct watched_gpu gpu;
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = memory == NULL ? NVML_ERROR_INVALID_ARGUMENT : look_up(device, &index, &gpu);
    if (result == NVML_SUCCESS) result = node_gpu_use(index, &use);
    if (result != NVML_SUCCESS) return result;
    uint64_t total = gpu.about.memory_bytes;
    *memory = (nvmlMemory_t){total, total - use.memory_used, use.memory_used};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlMemory_t now;
    nvmlReturn_t result = CHECK_VERSION(memory, nvmlMemory_v2_t, 2);
    if (result == NVML_SUCCESS) result = nvmlDeviceGetMemoryInfo(device, &now);
    if (result == NVML_SUCCESS) *memory = (nvmlMemory_v2_t){memory->version, now.total, 0, now.free, now.used};
    return result;
}

/* Hardly any kernel leaves memory alone, so memory is taken to be busy whenever the GPU is. */
EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = rates == NULL ? NVML_ERROR_INVALID_ARGUMENT : observe(device, &use);
    if (result == NVML_SUCCESS) *rates = (nvmlUtilization_t){percent(use.utilisation), percent(use.utilisation)};
    return result;
}

/* No emulated program encodes or decodes video, so these engines are idle. */
static nvmlReturn_t idle_engine(nvmlDevice_t device, unsigned int *utilisation, unsigned int *period_us) {
    unsigned int index;
    nvmlReturn_t result = !utilisation || !period_us ? NVML_ERROR_INVALID_ARGUMENT : node_index(device, &index);
    if (result != NVML_SUCCESS) return result;
    *utilisation = 0;
    *period_us = ENCODER_PERIOD_US;
    return NVML_SUCCESS;
}

#define IDLE_ENGINE(name)                                                                          \
    EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *utilisation, unsigned int *period) { \
        return idle_engine(device, utilisation, period);                                           \
    }
IDLE_ENGINE(nvmlDeviceGetEncoderUtilization)
IDLE_ENGINE(nvmlDeviceGetDecoderUtilization)
IDLE_ENGINE(nvmlDeviceGetJpgUtilization)
IDLE_ENGINE(nvmlDeviceGetOfaUtilization)

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = milliwatts == NULL ? NVML_ERROR_INVALID_ARGUMENT : observe(device, &use);
    if (result == NVML_SUCCESS) *milliwatts = nearest(1000 * use.watts);
    return result;
}

ANSWER(nvmlDeviceGetPowerManagementMode, unsigned int, NVML_FEATURE_ENABLED)
ANSWER(nvmlDeviceGetPowerManagementLimit, unsigned int, 1000 * gpu.about.max_watts)
ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, 1000 * gpu.about.max_watts)
ANSWER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, 1000 * gpu.about.max_watts)

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *least,
                                                                 unsigned int *most) {
    nvmlReturn_t result = nvmlDeviceGetPowerManagementLimit(device, least); /* the limit cannot be moved */
    return result == NVML_SUCCESS ? nvmlDeviceGetPowerManagementLimit(device, most) : result;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = millijoules == NULL ? NVML_ERROR_INVALID_ARGUMENT : observe(device, &use);
    if (result == NVML_SUCCESS) *millijoules = (unsigned long long)(1000 * use.joules);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *celsius) {
    struct gpuyard_gpu_view use;
    if (celsius == NULL || sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = observe(device, &use);
    if (result == NVML_SUCCESS) *celsius = nearest(use.celsius);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature) {
    unsigned int celsius;
    nvmlReturn_t result = CHECK_VERSION(temperature, nvmlTemperature_v1_t, 1);
    if (result == NVML_SUCCESS) result = nvmlDeviceGetTemperature(device, temperature->sensor, &celsius);
    if (result == NVML_SUCCESS) temperature->celsius = (int)celsius;
    return result;
}

/* Clocks are fixed at their highest, as durations are modelled for those. */
EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int clock, unsigned int *megahertz) {
    unsigned int index;
    struct watched_gpu gpu;
    if (megahertz == NULL || clock >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = look_up(device, &index, &gpu);
    if (result != NVML_SUCCESS) return result;
    if (clock == NVML_CLOCK_VIDEO) return NVML_ERROR_NOT_SUPPORTED;
    *megahertz = (unsigned int)(clock == NVML_CLOCK_MEM ? gpu.about.memory_mhz : gpu.about.core_mhz);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int clock, unsigned int *megahertz) {
    return nvmlDeviceGetMaxClockInfo(device, clock, megahertz);
}

EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned int clock, unsigned int id,
                                       unsigned int *megahertz) {
    (void)id; /* current, target, default and boost: all the same */
    return nvmlDeviceGetMaxClockInfo(device, clock, megahertz);
}

EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned int clock, unsigned int *megahertz) {
    return nvmlDeviceGetMaxClockInfo(device, clock, megahertz);
}

ANSWER(nvmlDeviceGetPerformanceState, unsigned int, NVML_PSTATE_0)
ANSWER(nvmlDeviceGetPowerState, unsigned int, NVML_PSTATE_0)

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
    struct gpuyard_gpu_view use;
    nvmlReturn_t result = reasons == NULL ? NVML_ERROR_INVALID_ARGUMENT : observe(device, &use);
    if (result == NVML_SUCCESS) *reasons = use.utilisation > 0 ? 0 : NVML_CLOCKS_EVENT_REASON_GPU_IDLE;
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode) {
    unsigned int index;
    struct gpuyard_description about;
    nvmlReturn_t result = mode == NULL ? NVML_ERROR_INVALID_ARGUMENT : node_index(device, &index);
    if (result == NVML_SUCCESS) result = node_description(&about);
    if (result == NVML_SUCCESS)
        *mode = about.sharing.policy == GPUYARD_EXCLUSIVE ? NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
                                                          : NVML_COMPUTEMODE_DEFAULT;
    return result;
}

/* Answers one field; what is not known is said for each field on its own. */
static void answer_field(nvmlDevice_t device, nvmlFieldValue_t *value) {
    value->result = NVML_ERROR_NOT_SUPPORTED;
    if (value->field == NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION) {
        value->value_type = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        value->result = nvmlDeviceGetTotalEnergyConsumption(device, &value->value.as_ulonglong);
    } else if (value->field == NVML_FI_DEV_POWER_AVERAGE || value->field == NVML_FI_DEV_POWER_INSTANT) {
        value->value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
        value->result = nvmlDeviceGetPowerUsage(device, &value->value.as_uint);
    }
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    unsigned int index;
    nvmlReturn_t result = values == NULL || count < 0 ? NVML_ERROR_INVALID_ARGUMENT : node_index(device, &index);
    for (int i = 0; result == NVML_SUCCESS && i < count; i++) answer_field(device, &values[i]);
    return result;
}

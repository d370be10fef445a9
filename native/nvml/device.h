/* What the answers about one GPU have in common. */
#ifndef GPUYARD_NVML_DEVICE_H
#define GPUYARD_NVML_DEVICE_H

#include "abi.h"
#include "watched.h"

#define SERIAL_LENGTH 16

nvmlReturn_t copy_text(const char *text, char *buffer, unsigned int length);
void write_serial(const struct watched_gpu *gpu, char serial[SERIAL_LENGTH]);

/* Each GPU sits alone on a bus of its own; bus 0 is the host's. */
static inline unsigned int pci_bus(unsigned int index) { return index + 1; }

static inline unsigned int percent(double part) { return (unsigned int)(part * 100 + 0.5); }

/* Finds the GPU behind a handle. */
static inline nvmlReturn_t look_up(nvmlDevice_t device, unsigned int *index, struct watched_gpu *gpu) {
    nvmlReturn_t result = node_index(device, index);
    return result == NVML_SUCCESS ? node_gpu(*index, gpu) : result;
}

/* Defines a function that answers one number about one GPU; the expression may use `gpu` and `index`. */
#define ANSWER(name, type, expression)                                                                        \
    EXPORT nvmlReturn_t name(nvmlDevice_t device, type *answer) {                                             \
        unsigned int index;                                                                                   \
        struct watched_gpu gpu;                                                                               \
        nvmlReturn_t result = answer == NULL ? NVML_ERROR_INVALID_ARGUMENT : look_up(device, &index, &gpu);   \
        if (result == NVML_SUCCESS) *answer = (type)(expression);                                             \
        return result;                                                                                        \
    }

#endif

/* The emulated node that the library watches. */
#ifndef GPUYARD_NVML_WATCHED_H
#define GPUYARD_NVML_WATCHED_H

#include "abi.h"
#include "node.h"

/* One GPU, as it was made. */
struct watched_gpu {
    struct gpuyard_gpu about;
    char uuid[GPUYARD_UUID_BYTES];
};

nvmlReturn_t node_open(void);
nvmlReturn_t node_close(void);
nvmlReturn_t node_description(struct gpuyard_description *about);
nvmlReturn_t node_gpu(unsigned int index, struct watched_gpu *gpu);
nvmlReturn_t node_gpu_use(unsigned int index, struct gpuyard_gpu_view *use);

/* Handles are numbers that no pointer has, so that a wrong one is noticed instead of followed. */
nvmlDevice_t node_handle(unsigned int index);
nvmlReturn_t node_index(nvmlDevice_t device, unsigned int *index);

#endif

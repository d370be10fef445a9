/* The emulated node behind the library: its file, its GPUs, and who is alive at them. */
#ifndef GPUYARD_NVML_NODE_H
#define GPUYARD_NVML_NODE_H

#include "abi.h"
#include "segment.h"

#define MOST_GPUS 64

/* A live process at one GPU, at one instant. */
struct client_use {
    unsigned int pid;
    uint64_t memory;
    double busy; /* part of the last second in which the GPU worked for it */
};

/* Everybody at one GPU, at one instant. */
struct gpu_use {
    unsigned long long time_us; /* Unix time of the instant */
    double age; /* emulated seconds since the node was made */
    double done; /* seconds of work finished so far, also by those who have left */
    double busy; /* part of the last second in which the GPU worked */
    uint64_t memory;
    unsigned int count;
    struct client_use clients[GPUYARD_MAX_CLIENTS];
};

nvmlReturn_t node_open(void);
nvmlReturn_t node_close(void);
nvmlReturn_t node_header(struct gpuyard_header *header);
nvmlReturn_t node_gpu(unsigned int index, struct gpuyard_gpu *gpu);
nvmlReturn_t node_gpu_use(unsigned int index, struct gpu_use *use);

/* Handles are addresses into a table, so that a wrong one is noticed instead of followed. */
nvmlDevice_t node_handle(unsigned int index);
nvmlReturn_t node_index(nvmlDevice_t device, unsigned int *index);

#endif

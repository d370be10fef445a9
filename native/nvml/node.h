/* The emulated node behind the library: its file, its GPUs, and who is alive at them. */
#ifndef GPUYARD_NVML_NODE_H
#define GPUYARD_NVML_NODE_H

#include "abi.h"
#include "segment.h"

#define MOST_GPUS 64

/* A live process at one GPU, at one instant. */
struct sitter {
    unsigned int pid;
    double sat_at; /* with the pid, tells a process from a later one at the same seat */
    uint64_t memory;
    double done; /* seconds of work finished so far */
};

/* Everybody at one GPU, at one instant. */
struct company {
    double born; /* Unix time at which the node was made, which tells it from a later one */
    double now; /* emulated seconds */
    double done; /* seconds of work finished so far, also by those who have left */
    uint64_t memory;
    unsigned int count;
    struct sitter sitters[GPUYARD_SEATS];
};

nvmlReturn_t node_open(void);
nvmlReturn_t node_close(void);
nvmlReturn_t node_header(struct gpuyard_header *header);
nvmlReturn_t node_gpu(unsigned int index, struct gpuyard_gpu *gpu);
nvmlReturn_t node_company(unsigned int index, struct company *company);
double node_now(const struct gpuyard_header *header);

/* Handles are addresses into a table, so that a wrong one is noticed instead of followed. */
nvmlDevice_t node_handle(unsigned int index);
nvmlReturn_t node_index(nvmlDevice_t device, unsigned int *index);

#endif

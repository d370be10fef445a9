/* How busy a GPU and its processes were lately. */
#ifndef GPUYARD_NVML_METER_H
#define GPUYARD_NVML_METER_H

#include "abi.h"
#include "segment.h"

struct share {
    unsigned int pid;
    double busy; /* part of the GPU's time, 0 to 1 */
};

struct reading {
    unsigned long long time_us; /* Unix time at which it was taken */
    double busy; /* 0 to 1 */
    unsigned int count;
    struct share shares[GPUYARD_SEATS];
};

/* Starts to watch, so that a question which comes a moment later needs no wait. */
void meter_start(void);

/* Reads one GPU's meter; waits a moment if there is nothing recent to compare with. */
nvmlReturn_t meter_read(unsigned int gpu, struct reading *reading);

unsigned int percent(double part);

#endif

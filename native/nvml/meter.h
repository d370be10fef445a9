/* How much a process at a GPU has done, in all and lately. */
#ifndef GPUYARD_NVML_METER_H
#define GPUYARD_NVML_METER_H

#include "segment.h"

/* Seconds of work done up to a time of the node's clock. */
double work_done(const struct gpuyard_client *client, double now);

/* The part of the `window` before now in which the GPU worked for the process, 0 to 1. */
double utilisation(const struct gpuyard_client *client, double now, double window);

#endif

/* How long a kernel takes on the emulated GPU. */
#ifndef GPUYARD_CUDA_KERNEL_TIME_H
#define GPUYARD_CUDA_KERNEL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "settings.h"

/* Reads GPUYARD_KERNEL_TIMES: `pattern=microseconds`, separated by commas or lines, in the variable itself or in the
 * file that it names. If it makes no sense, says so in one line. */
bool read_kernel_times(void);

/* Seconds by the first pattern that the name matches; not a number if none does. */
double kernel_seconds_by_name(const char *name);

/* Seconds of any other kernel: the shortest there is, and as long as its threads take to read two numbers of four bytes
 * and to write one each; or as it saw pass by the GPU's timer, if that is longer. */
double kernel_seconds_by_size(const struct gpu_kind *kind, uint64_t threads, double seen);

#endif

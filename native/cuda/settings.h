/* What GPUYARD_* variables ask for: the same names and meanings as gpuyard/emulation/settings.py. */
#ifndef GPUYARD_CUDA_SETTINGS_H
#define GPUYARD_CUDA_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "node.h"

#define MOST_GPUS 16

/* One kind of GPU: what gpuyard/core/gpus.py calls a GpuKind, as far as a driver needs it. Times in seconds, rates in
 * bytes a second. */
struct gpu_kind {
    const char *key, *name;
    int compute_major, compute_minor, multiprocessors, core_mhz, memory_mhz;
    uint64_t memory_bytes;
    double bandwidth, pageable_copy, pinned_copy, copy_latency_s, small_copy_latency_s, launch_latency_s,
        kernel_floor_s, link_bandwidth, link_latency_s, idle_watts, max_watts;
};

enum clock_kind { CLOCK_OF_NODE, CLOCK_VIRTUAL, CLOCK_DEVICE };

struct settings {
    const struct gpu_kind *gpus[MOST_GPUS]; /* of the machine */
    unsigned int gpu_count;
    unsigned int visible[MOST_GPUS]; /* which of them the program sees, by CUDA_VISIBLE_DEVICES */
    unsigned int visible_count;
    char node[GPUYARD_MOST_NAME_BYTES + 1];
    enum clock_kind clock;
    double speed;
    struct gpuyard_sharing sharing;
    struct gpuyard_terms terms;
    bool execute; /* PTX is run, not only timed */
};

/* Reads the environment; if it makes no sense, says so in one line. */
bool read_settings(struct settings *settings);

/* Reads GPUs as in "A100", "4xA100" or "2xV100+1xK80". */
bool read_gpus(const char *text, struct settings *settings);

/* Reads a sharing policy as in "time-slice:quantum=2ms,switch=10us". */
bool read_sharing(const char *text, struct gpuyard_sharing *sharing);

/* How long a copy between host and GPU takes, in either direction. */
double copy_seconds(const struct gpu_kind *kind, uint64_t bytes, bool pinned);

#endif

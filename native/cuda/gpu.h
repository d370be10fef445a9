/* One emulated GPU as this process uses it: what is queued on it, as positions in its device time, and its memory.
 *
 * The same model as gpuyard/emulation/timeline.py and device.py: streams and two copy engines each have a tail, the
 * position at which all that was queued there will be done. Only waits make anybody wait.
 */
#ifndef GPUYARD_CUDA_GPU_H
#define GPUYARD_CUDA_GPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "settings.h"
#include "timeline.h"

#define LAUNCH_QUEUE 1024 /* kernels that may be outstanding before a launch makes the host wait, as with CUDA */

struct gpu {
    unsigned int index; /* as the program knows it */
    unsigned int slot;  /* as the machine knows it */
    const struct gpu_kind *kind;
    char uuid[GPUYARD_UUID_BYTES];
    pthread_mutex_t lock; /* over what follows, and the tails of the GPU's streams */
    struct gpu_client client;
    bool connected;
    double tail;               /* of everything */
    double busy;               /* seconds of work queued so far */
    double from_host, to_host; /* tails of the copy engines */
    double published;          /* when the node was last told */
    double behind;             /* seconds this process has spent since its last wait on what a real GPU would compute */
    double ends[LAUNCH_QUEUE]; /* of the latest kernels */
    uint64_t launches;
    uint64_t reserved, reserved_high; /* bytes of memory */
};

/* The machine. `machine_open` may be called again; in a child forked after it, it fails. */
CUresult machine_open(void);
CUresult machine_state(void);
unsigned int gpu_count(void);
struct gpu *gpu_at(unsigned int index);
CUresult find_gpu(CUdevice device, struct gpu **gpu);
const struct settings *machine_settings(void);

/* Takes a GPU into use: from now on monitors show this process. */
CUresult gpu_connect(struct gpu *gpu);

/* Queues a kernel at the end of `*tail` and moves it; waits only if too many are outstanding. */
void gpu_launch(struct gpu *gpu, double *tail, double duration);

enum engine { ENGINE_NONE, ENGINE_FROM_HOST, ENGINE_TO_HOST };

/* Queues a copy, which needs both its stream and an engine. */
void gpu_copy(struct gpu *gpu, double *tail, double duration, enum engine engine);

/* The position at which what is queued up to `tail` will be done, if nothing more is queued there: an event's time. */
double gpu_mark(struct gpu *gpu, double tail);

bool gpu_has_reached(struct gpu *gpu, double position);
void gpu_wait(struct gpu *gpu, double position);
double gpu_seconds_between(struct gpu *gpu, double start, double end);

/* The host has computed what a GPU would have: that is not time in which the program would have queued nothing. */
void gpu_fell_behind(struct gpu *gpu, double seconds);
double host_seconds(void);

bool gpu_reserve(struct gpu *gpu, uint64_t bytes);
void gpu_release(struct gpu *gpu, uint64_t bytes);
uint64_t gpu_free_memory(struct gpu *gpu);
uint64_t gpu_memory(const struct gpu *gpu);

#endif

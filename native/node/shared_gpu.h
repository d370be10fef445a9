/* One GPU and the clients that use it. All of this happens under the GPU's lock. */
#ifndef GPUYARD_SHARED_GPU_H
#define GPUYARD_SHARED_GPU_H

#include "layout.h"
#include "progress.h"
#include "segment.h"

#define REAP_S 0.1 /* how often, in real seconds, the dead are looked for where several are connected */

struct shared_gpu {
    struct gpuyard_segment *segment;
    struct gpu_record *record;
    const struct gpuyard_description *node;
    uint64_t own; /* clients of this opening of the file, which its own locks do not show to itself */
};

int shared_gpu_lock(struct shared_gpu *gpu);
void shared_gpu_unlock(struct shared_gpu *gpu);

/* Brings everybody up to now and disconnects the dead, the latter at most every REAP_S; then makes others notice. */
void shared_gpu_advance(struct shared_gpu *gpu, double now, struct progress *progress);
void shared_gpu_write(struct shared_gpu *gpu, const struct progress *progress);

/* Brings everybody up to now and disconnects the dead; returns the time up to which that is done. */
double shared_gpu_reap(struct shared_gpu *gpu, double now);

/* Becomes the client of a free number: its device time starts as the clock. Returns the number, or an error. */
int shared_gpu_connect(struct shared_gpu *gpu, double now, const struct gpuyard_terms *terms);

/* Frees a client's number, and keeps count of the work that was done for it. */
void shared_gpu_disconnect(struct shared_gpu *gpu, unsigned int client, double now);

static inline bool is_connected(const struct shared_gpu *gpu, unsigned int client) {
    return gpu->record->connected >> client & 1;
}

static inline bool is_own(const struct shared_gpu *gpu, unsigned int client) { return gpu->own >> client & 1; }

/* Bytes that a client, and all clients together, hold with their contexts. */
uint64_t shared_gpu_memory_of(const struct shared_gpu *gpu, unsigned int client);
uint64_t shared_gpu_memory_used(const struct shared_gpu *gpu);

#endif

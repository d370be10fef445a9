/* The part of a launch that is done each time: no call, no lock. */
#ifndef GPUYARD_GATE_FAST_H
#define GPUYARD_GATE_FAST_H

#include "layout.h"

static inline bool fast_is_stopped(const struct client_record *client) {
    return atomic_load_explicit(&client->stop, memory_order_acquire) != 0;
}

/* With nothing in the queue, a job may have to begin; otherwise it has begun. */
static inline bool fast_is_open(const struct client_record *client) {
    return !fast_is_stopped(client) && atomic_load_explicit(&client->queued, memory_order_relaxed) != 0;
}

/* Counts a launch; returns how many are in the queue. */
static inline uint64_t fast_count(struct client_record *client) {
    atomic_fetch_add_explicit(&client->launches, 1, memory_order_relaxed);
    return atomic_fetch_add_explicit(&client->queued, 1, memory_order_acq_rel) + 1;
}

/* The first of a queue starts a clock, and the cap may be reached: most launches are neither. */
static inline bool fast_is_plain(const struct client_record *client, uint64_t queued) {
    uint64_t most = atomic_load_explicit(&client->sync_every, memory_order_relaxed);
    return queued != 1 && (most == 0 || queued < most);
}

#endif

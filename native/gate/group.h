/* What a process holds of a group, and of its places at GPUs. */
#ifndef GPUYARD_GATE_GROUP_H
#define GPUYARD_GATE_GROUP_H

#include "layout.h"
#include "segment.h"

struct gpuyard_gate {
    struct gpuyard_segment *segment;
    struct group_record *record;
    bool controls; /* is the controller */
    struct gpuyard_gate_client *clients; /* changed only with the segment locked */
};

struct gpuyard_gate_client {
    struct gpuyard_gate *gate;
    struct gpu_record *gpu;
    struct client_record *record;
    unsigned int gpu_number, slot;
    _Atomic bool connected;
    _Atomic uint64_t marks;  /* jobs that the program said had begun and not ended */
    struct gpuyard_gate_client *next;
};

static inline int client_state(const struct gpuyard_gate_client *client) {
    int error = gpuyard_segment_state(client->gate->segment);
    return error != GPUYARD_OK ? error : client->connected ? GPUYARD_OK : GPUYARD_ERROR_DISCONNECTED;
}

uint64_t monotonic_ns(void);

#endif

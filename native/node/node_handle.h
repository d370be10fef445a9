/* What a process holds of a node, and of each GPU that it is a client of. */
#ifndef GPUYARD_NODE_HANDLE_H
#define GPUYARD_NODE_HANDLE_H

#include "shared_gpu.h"

#define NOWHERE GPUYARD_MOST_CLIENTS /* the number of a client that has disconnected */

struct gpuyard_client {
    struct gpuyard_node *node;
    struct shared_gpu *gpu;
    _Atomic unsigned int number;
    struct client_record *record;
    uint64_t memory_limit;
    _Atomic unsigned int version; /* of what is known below; odd while it changes */
    _Atomic uint64_t generation, alone;
    _Atomic double since, position, rate, horizon, sample_at;
    struct gpuyard_client *next;
};

struct gpuyard_node {
    struct gpuyard_segment *segment;
    struct gpuyard_description about;
    struct gpuyard_client *clients; /* all that ever were: they end with the node */
    struct shared_gpu gpus[];
};

/* Makes what a process holds of a place that it has taken; NULL if there is no memory for it. Under the GPU's lock. */
struct gpuyard_client *client_make(struct gpuyard_node *node, struct shared_gpu *gpu, unsigned int number);

/* Takes the GPU's lock for a client, which must be connected. */
int client_lock(const struct gpuyard_client *client);
void client_unlock(const struct gpuyard_client *client);

#endif

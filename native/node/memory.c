/* The memory that a client holds, and what else it tells about itself. */
#include "node_handle.h"

static uint64_t bytes_left(const struct gpuyard_client *client) {
    uint64_t total = client->gpu->record->about.memory_bytes, used = shared_gpu_memory_used(client->gpu);
    uint64_t left = used < total ? total - used : 0, reserved = client->record->reserved;
    uint64_t allowed = reserved < client->memory_limit ? client->memory_limit - reserved : 0;
    return left < allowed ? left : allowed;
}

/* Before it refuses, it looks whether somebody is gone without giving back what it had. */
int gpuyard_reserve(struct gpuyard_client *client, uint64_t bytes) {
    int error = client_lock(client);
    if (error != GPUYARD_OK) return error;
    if (bytes > bytes_left(client)) shared_gpu_reap(client->gpu, gpuyard_now(client->node));
    if (bytes > bytes_left(client)) error = GPUYARD_ERROR_OUT_OF_MEMORY;
    else client->record->reserved += bytes;
    client_unlock(client);
    return error;
}

int gpuyard_release(struct gpuyard_client *client, uint64_t bytes) {
    int error = client_lock(client);
    if (error != GPUYARD_OK) return error;
    uint64_t held = client->record->reserved;
    client->record->reserved = bytes < held ? held - bytes : 0;
    client_unlock(client);
    return GPUYARD_OK;
}

int gpuyard_free_memory(struct gpuyard_client *client, uint64_t *bytes) {
    int error = client_lock(client);
    if (error != GPUYARD_OK) return error;
    *bytes = bytes_left(client);
    client_unlock(client);
    return GPUYARD_OK;
}

int gpuyard_memory_limit(const struct gpuyard_client *client, uint64_t *bytes) {
    *bytes = client->memory_limit;
    return GPUYARD_OK;
}

int gpuyard_neighbours(const struct gpuyard_client *client, unsigned int *count) {
    int error = gpuyard_segment_state(client->node->segment);
    if (error != GPUYARD_OK) return error;
    if (client->number == NOWHERE) return GPUYARD_ERROR_DISCONNECTED;
    *count = 0;
    for (unsigned int other = 0; other < GPUYARD_MOST_CLIENTS; other++)
        *count += other != client->number && is_connected(client->gpu, other);
    return GPUYARD_OK;
}

/* Without a lock: nobody else writes it, and after a fork it reaches nobody. */
int gpuyard_publish(struct gpuyard_client *client, enum gpuyard_figure figure, uint64_t value) {
    int error = gpuyard_segment_state(client->node->segment);
    if (error != GPUYARD_OK) return error;
    if (client->number == NOWHERE) return GPUYARD_ERROR_DISCONNECTED;
    client->record->figures[figure] = value;
    return GPUYARD_OK;
}

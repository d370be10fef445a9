/* How much memory a client may take, and has. */
#include "group.h"

int gpuyard_gate_reserve(struct gpuyard_gate_client *client, uint64_t bytes) {
    struct client_record *record = client->record;
    int error = client_state(client);
    if (error != GPUYARD_OK) return error;
    uint64_t limit = record->request.memory_limit, used = record->memory_used;
    do {
        if (bytes > limit || used > limit - bytes) return GPUYARD_ERROR_OUT_OF_MEMORY;
    } while (!atomic_compare_exchange_weak(&record->memory_used, &used, used + bytes));
    return GPUYARD_OK;
}

int gpuyard_gate_release(struct gpuyard_gate_client *client, uint64_t bytes) {
    int error = client_state(client);
    if (error != GPUYARD_OK) return error;
    uint64_t used = client->record->memory_used;
    while (!atomic_compare_exchange_weak(&client->record->memory_used, &used, used > bytes ? used - bytes : 0)) continue;
    return GPUYARD_OK;
}

int gpuyard_gate_memory(const struct gpuyard_gate_client *client, uint64_t *limit, uint64_t *used) {
    int error = client_state(client);
    if (error != GPUYARD_OK) return error;
    *limit = client->record->request.memory_limit;
    *used = client->record->memory_used;
    return GPUYARD_OK;
}

/* A process comes to a GPU, and goes. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "levels.h"

static int check_request(const struct gpuyard_gate_request *request) {
    if (!(request->share > 0 && request->share <= 1)) return GPUYARD_ERROR_SHARE;
    return levels_check(&request->terms);
}

/* Finds the GPU of this key, or gives it the next number. A number, once given, is kept as long as the group lives. */
static int find_gpu(struct gpuyard_gate *gate, const char *key, unsigned int *number) {
    struct group_record *group = gate->record;
    if (*key == '\0' || strlen(key) >= GPUYARD_GATE_KEY_BYTES) return GPUYARD_ERROR_NO_SUCH_GPU;
    int error = segment_lock(gate->segment, MAKING_BYTE);
    if (error != GPUYARD_OK) return error;
    unsigned int gpu = 0;
    while (gpu < group->gpu_count && strcmp(group->gpus[gpu].key, key) != 0) gpu++;
    if (gpu == GPUYARD_GATE_MOST_GPUS) {
        error = GPUYARD_ERROR_GPUS_TAKEN;
    } else if (gpu == group->gpu_count) {
        strcpy(group->gpus[gpu].key, key);
        group->gpu_count = gpu + 1;
    }
    segment_unlock(gate->segment, MAKING_BYTE);
    *number = gpu;
    return error;
}

/* Takes a free place: its lock says that we live, its bit that it counts. A place whose process is about to end is locked. */
static int take_slot(struct gpuyard_gate *gate, unsigned int number, unsigned int *slot) {
    const struct gpu_record *gpu = &gate->record->gpus[number];
    for (*slot = 0; *slot < GPUYARD_MOST_CLIENTS; ++*slot) {
        if (gpu->connected >> *slot & 1) continue;
        int held = gpuyard_segment_hold(gate->segment, client_byte(number, *slot), false);
        if (held <= 0) return held;
    }
    return GPUYARD_ERROR_CLIENTS_TAKEN;
}

static void write_record(struct gpuyard_gate *gate, struct client_record *record,
                         const struct gpuyard_gate_request *request) {
    memset(record, 0, sizeof *record);
    record->ticket = atomic_fetch_add(&gate->record->last_ticket, 1) + 1;
    record->pid = (uint64_t)getpid();
    record->request = *request;
}

static void remember(struct gpuyard_gate *gate, struct gpuyard_gate_client *client, unsigned int gpu, unsigned int slot) {
    client->gate = gate;
    client->gpu_number = gpu;
    client->slot = slot;
    client->gpu = &gate->record->gpus[gpu];
    client->record = &client->gpu->clients[slot];
    client->connected = true;
    client->next = gate->clients;
    gate->clients = client;
}

static int connect_at(struct gpuyard_gate *gate, unsigned int number, const struct gpuyard_gate_request *request,
                      struct gpuyard_gate_client *client) {
    unsigned int slot;
    int error = segment_lock(gate->segment, gpu_byte(number));
    if (error != GPUYARD_OK) return error;
    levels_look(gate, number);
    error = take_slot(gate, number, &slot);
    if (error == GPUYARD_OK) {
        struct gpu_record *gpu = &gate->record->gpus[number];
        write_record(gate, &gpu->clients[slot], request);
        gpu->connected |= UINT64_C(1) << slot;
        remember(gate, client, number, slot);
        levels_renew(gate, gpu);
        levels_changed(gate);
    }
    segment_unlock(gate->segment, gpu_byte(number));
    return error;
}

int gpuyard_gate_connect(struct gpuyard_gate *gate, const char *key, const struct gpuyard_gate_request *request,
                         struct gpuyard_gate_client **client) {
    unsigned int number;
    int error = gpuyard_gate_state(gate);
    if (error == GPUYARD_OK) error = check_request(request);
    if (error == GPUYARD_OK) error = find_gpu(gate, key, &number);
    if (error != GPUYARD_OK) return error;
    struct gpuyard_gate_client *made = calloc(1, sizeof *made);
    if (made == NULL) return GPUYARD_ERROR_SYSTEM;
    error = connect_at(gate, number, request, made);
    if (error != GPUYARD_OK) {
        free(made);
        return error;
    }
    *client = made;
    return GPUYARD_OK;
}

int gpuyard_gate_disconnect(struct gpuyard_gate_client *client) {
    struct gpuyard_gate *gate = client->gate;
    int error = client_state(client);
    if (error != GPUYARD_OK) return error == GPUYARD_ERROR_DISCONNECTED ? GPUYARD_OK : error;
    error = segment_lock(gate->segment, gpu_byte(client->gpu_number));
    if (error != GPUYARD_OK) return error;
    if (atomic_exchange(&client->connected, false)) {
        levels_clear(gate, client->gpu, client->slot);
        levels_apply(client->gpu);
        gpuyard_segment_drop(gate->segment, client_byte(client->gpu_number, client->slot));
    }
    segment_unlock(gate->segment, gpu_byte(client->gpu_number));
    return GPUYARD_OK;
}

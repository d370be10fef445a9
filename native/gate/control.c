/* The controller: another process's words for the terms of each client. */
#include "levels.h"

/* What an earlier controller decided is not for this one. */
static int forget_decisions(struct gpuyard_gate *gate, unsigned int number) {
    struct gpu_record *gpu = &gate->record->gpus[number];
    int error = segment_lock(gate->segment, gpu_byte(number));
    if (error != GPUYARD_OK) return error;
    for (uint64_t left = gpu->connected; left != 0; left &= left - 1) gpu->clients[__builtin_ctzll(left)].decided = 0;
    levels_renew(gate, gpu);
    segment_unlock(gate->segment, gpu_byte(number));
    return GPUYARD_OK;
}

int gpuyard_gate_control(struct gpuyard_gate *gate) {
    int error = gpuyard_segment_hold(gate->segment, CONTROLLER_BYTE, false);
    if (error != GPUYARD_OK) return error == 1 ? GPUYARD_ERROR_CONTROLLED : error;
    gate->controls = true;
    for (unsigned int gpu = 0; error == GPUYARD_OK && gpu < gate->record->gpu_count; gpu++)
        error = forget_decisions(gate, gpu);
    return error;
}

static void write_decision(struct gpu_record *gpu, const struct gpuyard_gate_decision *decision) {
    struct client_record *client = &gpu->clients[decision->slot];
    if (!(gpu->connected >> decision->slot & 1) || client->ticket != decision->ticket) return;
    client->decision = decision->terms;
    client->decided = 1;
}

int gpuyard_gate_decide(struct gpuyard_gate *gate, unsigned int gpu, const struct gpuyard_gate_decision *decisions,
                        unsigned int count) {
    int error = gpuyard_gate_state(gate);
    if (error != GPUYARD_OK) return error;
    if (gpu >= gate->record->gpu_count) return GPUYARD_ERROR_NO_SUCH_GPU;
    if (!gate->controls) return GPUYARD_ERROR_CONTROLLED;
    for (unsigned int i = 0; i < count; i++) {
        if (decisions[i].slot >= GPUYARD_MOST_CLIENTS) return GPUYARD_ERROR_DISCONNECTED;
        error = levels_check(&decisions[i].terms);
        if (error != GPUYARD_OK) return error;
    }
    error = segment_lock(gate->segment, gpu_byte(gpu));
    if (error != GPUYARD_OK) return error;
    for (unsigned int i = 0; i < count; i++) write_decision(&gate->record->gpus[gpu], &decisions[i]);
    levels_renew(gate, &gate->record->gpus[gpu]);
    segment_unlock(gate->segment, gpu_byte(gpu));
    return GPUYARD_OK;
}

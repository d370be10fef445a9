/* A GPU of the group at one instant, for monitors and controllers. */
#include <string.h>

#include "levels.h"

int gpuyard_gate_gpu_count(const struct gpuyard_gate *gate) {
    int error = gpuyard_gate_state(gate);
    return error == GPUYARD_OK ? (int)gate->record->gpu_count : error;
}

static struct gpuyard_gate_client_view view_of(const struct client_record *client, unsigned int slot) {
    return (struct gpuyard_gate_client_view){
        .slot = slot,
        .ticket = client->ticket,
        .pid = client->pid,
        .request = client->request,
        .terms = {client->level, client->sync_every, client->window, client->hold_ns},
        .stopped = client->stop != STOP_OPEN,
        .active = client->active,
        .waiting = client->waiting,
        .launches = client->launches,
        .queued = client->queued,
        .longest_queue = client->longest_queue,
        .syncs = client->syncs,
        .preemptions = client->preemptions,
        .waited_ns = client->waited_ns,
        .drains = client->drains,
        .drained_launches = client->drained_launches,
        .drain_ns = client->drain_ns,
        .busy_ns = client->busy_ns,
        .done_launches = client->done_launches,
        .jobs_begun = client->jobs_begun,
        .jobs_done = client->jobs_done,
        .job_since_ns = client->job_since_ns,
        .last_job_ns = client->last_job_ns,
        .job_launches = client->launches - client->before_job,
        .resumptions = client->resumptions,
        .resumed_launches = client->before_resumption - client->before_job,
        .memory_used = client->memory_used,
    };
}

int gpuyard_gate_look(struct gpuyard_gate *gate, unsigned int number, struct gpuyard_gate_gpu_view *view) {
    int error = gpuyard_gate_state(gate);
    if (error != GPUYARD_OK) return error;
    if (number >= gate->record->gpu_count) return GPUYARD_ERROR_NO_SUCH_GPU;
    error = segment_lock(gate->segment, gpu_byte(number));
    if (error != GPUYARD_OK) return error;
    levels_look(gate, number);
    const struct gpu_record *gpu = &gate->record->gpus[number];
    memcpy(view->key, gpu->key, sizeof view->key);
    view->now_ns = monotonic_ns();
    view->controlled = levels_controlled(gate);
    view->client_count = 0;
    for (uint64_t left = gpu->connected; left != 0; left &= left - 1) {
        unsigned int slot = (unsigned int)__builtin_ctzll(left);
        view->clients[view->client_count++] = view_of(&gpu->clients[slot], slot);
    }
    segment_unlock(gate->segment, gpu_byte(number));
    return GPUYARD_OK;
}

/* Two events a stream are enough: the one of two groups ago is used again once it was waited for. */
#define _GNU_SOURCE
#include "window.h"

#include "../group.h"

/* Of what is queued on the stream, a group is done; less if somebody else has claimed it. */
static uint64_t claim_group(struct stream_queue *queue, uint64_t size) {
    uint64_t queued = queue->queued, claimed;
    do claimed = queued < size ? queued : size;
    while (!atomic_compare_exchange_weak(&queue->queued, &queued, queued - claimed));
    return claimed;
}

void window_begins(struct stream_queue *queue) {
    uint64_t size = queue->gpu->record->window, count = queue->window_count;
    if (size == 0 || count % size != 0) return;
    unsigned int place = count / size % 2;
    if (!atomic_exchange(&queue->window_ended[place], false)) return;
    uint64_t since = monotonic_ns();
    if (!tells_done(DRIVER_CALL(cuEventSynchronize, (CUevent), queue->window_ends[place]))) return;
    gpuyard_gate_drained(queue->gpu->client, claim_group(queue, size), GPUYARD_GATE_CAP, monotonic_ns() - since);
}

static bool have_event(CUevent *event) {
    const unsigned int flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
    return *event != NULL || DRIVER_CALL(cuEventCreate, (CUevent *, unsigned int), event, flags) == CUDA_SUCCESS;
}

void window_ends(struct stream_queue *queue) {
    uint64_t size = queue->gpu->record->window, count = atomic_fetch_add(&queue->window_count, 1) + 1;
    if (size == 0 || count % size != 0) return;
    unsigned int place = (count / size - 1) % 2;
    inside++;
    if (have_event(&queue->window_ends[place]) &&
        DRIVER_CALL(cuEventRecord, (CUevent, CUstream), queue->window_ends[place], queue->stream) == CUDA_SUCCESS)
        queue->window_ended[place] = true;
    inside--;
}

void window_begins_anew(struct stream_queue *queue) {
    queue->window_count = 0;
    queue->window_ended[0] = queue->window_ended[1] = false;
}

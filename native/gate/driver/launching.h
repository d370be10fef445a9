/* What every function does that puts work onto a stream: the gate before it, a count after it. */
#ifndef GPUYARD_GATE_LAUNCHING_H
#define GPUYARD_GATE_LAUNCHING_H

#include "captures.h"
#include "streams.h"
#include "window.h"

/* Drains and waits until the gate is open, or begins a job: whatever a launch may need beyond a look. */
void launch_held_up(struct stream_queue *queue);

/* Ends the job that began for a launch that the driver refused, if nothing else of it is queued. */
void launch_failed(struct stream_queue *queue);

/* The queue that a launch counts for; NULL if it does not concern the gate. */
static inline struct stream_queue *launch_queue(CUstream named) {
    return !is_gated() || (captures_under_way() && is_capturing(named)) ? NULL : queue_of(named);
}

static inline void launch_begins(struct stream_queue *queue) {
    struct client_record *record = queue->gpu->record;
    inside++;
    if (!fast_is_open(record)) launch_held_up(queue);
    if (atomic_load_explicit(&record->window, memory_order_relaxed) != 0) window_begins(queue);
}

static inline void launch_ends(struct stream_queue *queue, CUresult result) {
    struct gated_gpu *gpu = queue->gpu;
    inside--;
    if (result != CUDA_SUCCESS) {
        launch_failed(queue);
        return;
    }
    uint64_t queued = fast_count(gpu->record);
    atomic_fetch_add_explicit(&queue->queued, 1, memory_order_relaxed);
    if (atomic_load_explicit(&gpu->record->window, memory_order_relaxed) != 0) window_ends(queue);
    if (!fast_is_plain(gpu->record, queued) && gpuyard_gate_counted(gpu->client, queued))
        queues_drain(gpu, GPUYARD_GATE_CAP);
}

/* A function that puts work onto a stream. */
#define LAUNCHING(name, named, arguments, ...)                     \
    EXPORT CUresult name(__VA_ARGS__) {                            \
        __typeof__(&name) real = REAL(name);                       \
        struct stream_queue *queue = launch_queue(named);          \
        if (queue == NULL) return real arguments;                  \
        launch_begins(queue);                                      \
        CUresult result = real arguments;                          \
        launch_ends(queue, result);                                \
        return result;                                             \
    }

/* The same with its version for programs whose default stream is the thread's own. */
#define LAUNCHING_BOTH(name, stream, arguments, ...)                          \
    LAUNCHING(name, named_stream(stream), arguments, __VA_ARGS__)             \
    LAUNCHING(name##_ptsz, named_stream_ptsz(stream), arguments, __VA_ARGS__)

#endif

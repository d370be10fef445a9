/* What this process has queued on each stream that it launches on, and waiting for it.
 *
 * A stream's count is *claimed* before a synchronisation and reported once that has returned: what is launched meanwhile stays
 * counted, and what two threads wait for at a time is reported once.
 */
#ifndef GPUYARD_GATE_STREAMS_H
#define GPUYARD_GATE_STREAMS_H

#include "process.h"

struct stream_queue {
    struct gated_gpu *gpu;
    CUcontext context;
    CUstream stream;
    const void *thread; /* of a thread's own default stream: nobody else can ask about it */
    _Atomic uint64_t queued;
    _Atomic bool is_gone; /* the stream was destroyed; `last` is the event after what it had queued */
    CUevent last;
    _Atomic uint64_t window_count; /* launches, and the events that end groups of them: window.h */
    CUevent window_ends[2];
    _Atomic bool window_ended[2];
    struct stream_queue *next;
};

/* The default stream of a function, and of its version for programs whose default stream is the thread's own. */
static inline CUstream named_stream(CUstream stream) { return stream == NULL ? CU_STREAM_LEGACY : stream; }
static inline CUstream named_stream_ptsz(CUstream stream) { return stream == NULL ? CU_STREAM_PER_THREAD : stream; }

/* The queue of a stream in the thread's context; NULL without one. */
struct stream_queue *queue_of(CUstream named);

/* What is queued, set to nothing: the caller waits for it, and reports it or puts it back. */
uint64_t queue_claim(struct stream_queue *queue);
uint64_t queues_claim(struct gated_gpu *gpu, CUcontext context);

/* Claims what is known to be done on any stream of the GPU, without waiting. */
uint64_t queues_claim_done(struct gated_gpu *gpu);

/* Puts claims back after a synchronisation that failed. */
void queues_put_back(struct gated_gpu *gpu, CUcontext context, uint64_t launches);

/* Waits until all streams of the GPU are empty, and reports it. */
void queues_drain(struct gated_gpu *gpu, enum gpuyard_gate_drain why);

/* A stream ends: what it has queued goes on, but can no longer be asked about. */
void queue_ends(CUstream named);

/* A context of a GPU has ended, and all that was queued in it is done. */
void queues_end(struct gated_gpu *gpu, CUcontext context);

/* Whether a synchronisation's result says that nothing is left to wait for. */
bool tells_done(CUresult result);

#endif

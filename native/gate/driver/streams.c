/* Streams by their handles, and the driver asked about them. */
#define _GNU_SOURCE
#include "streams.h"

#include <stdlib.h>

#include "../group.h"
#include "captures.h"
#include "window.h"

#define MOST_CONTEXTS 16 /* of one GPU that are drained at a time */
#define REMEMBERED 8 /* streams that a thread finds without the table */

struct remembered {
    uint64_t handles; /* handles_changed at the time */
    CUcontext context;
    CUstream stream;
    struct stream_queue *queue;
};

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct remembered remembered[REMEMBERED] __attribute__((tls_model("initial-exec")));

/* A stream belongs to a context, and the default streams to whichever is current. */
static CUcontext context_of(CUstream stream, CUcontext current) {
    CUcontext context = current;
    if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return current;
    CUresult result = DRIVER_CALL(cuStreamGetCtx, (CUstream, CUcontext *), stream, &context);
    return result == CUDA_SUCCESS && context != NULL ? context : current;
}

static const void *thread_of(CUstream stream) { return stream == CU_STREAM_PER_THREAD ? &inside : NULL; }

/* Whether a context has nothing left to do: it succeeded, or can never do anything again. */
bool tells_done(CUresult result) {
    return result == CUDA_SUCCESS || (result >= CUDA_ERROR_ILLEGAL_ADDRESS && result <= CUDA_ERROR_LAUNCH_FAILED);
}

static struct stream_queue *find(struct gated_gpu *gpu, CUcontext context, CUstream stream) {
    struct stream_queue *each = gpu->streams;
    while (each != NULL && (each->is_gone || each->context != context || each->stream != stream ||
                            each->thread != thread_of(stream)))
        each = each->next;
    return each;
}

/* A queue that is no longer needed is used again: programs may make and destroy streams without end. */
static struct stream_queue *unused(struct gated_gpu *gpu) {
    struct stream_queue *each = gpu->streams;
    while (each != NULL && (!each->is_gone || each->queued != 0)) each = each->next;
    return each;
}

static void destroy_event(CUevent *event) {
    if (*event != NULL) DRIVER_CALL(cuEventDestroy_v2, (CUevent), *event);
    *event = NULL;
}

static struct stream_queue *make(struct gated_gpu *gpu, CUcontext context, CUstream stream) {
    struct stream_queue *queue = unused(gpu);
    bool is_new = queue == NULL;
    if (is_new) queue = calloc(1, sizeof *queue);
    if (queue == NULL) return NULL;
    queue->gpu = gpu;
    queue->context = context;
    queue->stream = stream;
    queue->thread = thread_of(stream);
    destroy_event(&queue->last);
    window_begins_anew(queue);
    queue->is_gone = false;
    if (!is_new) return queue;
    queue->next = gpu->streams;
    return gpu->streams = queue;
}

static struct stream_queue *look_up(CUstream stream, CUcontext current) {
    CUcontext context = context_of(stream, current);
    struct gated_gpu *gpu = gpu_of_context(context);
    if (gpu == NULL) return NULL;
    pthread_mutex_lock(&table_mutex);
    struct stream_queue *queue = find(gpu, context, stream);
    if (queue == NULL) queue = make(gpu, context, stream);
    pthread_mutex_unlock(&table_mutex);
    return queue;
}

struct stream_queue *queue_of(CUstream stream) {
    CUcontext current = current_context();
    if (current == NULL) return NULL;
    struct remembered *place = &remembered[((uintptr_t)stream >> 4 ^ (uintptr_t)stream) % REMEMBERED];
    uint64_t handles = atomic_load_explicit(&handles_changed, memory_order_relaxed);
    if (place->stream == stream && place->context == current && place->handles == handles) return place->queue;
    inside++;
    struct stream_queue *queue = look_up(stream, current);
    inside--;
    if (queue != NULL) *place = (struct remembered){handles, current, stream, queue};
    return queue;
}

void queues_forget(void) { pthread_mutex_init(&table_mutex, NULL); }

uint64_t queue_claim(struct stream_queue *queue) { return atomic_exchange(&queue->queued, 0); }

uint64_t queues_claim(struct gated_gpu *gpu, CUcontext context) {
    uint64_t launches = 0;
    pthread_mutex_lock(&table_mutex);
    for (struct stream_queue *each = gpu->streams; each != NULL; each = each->next)
        if (each->context == context) {
            window_begins_anew(each);
            launches += queue_claim(each);
        }
    pthread_mutex_unlock(&table_mutex);
    return launches;
}

/* A stream that is gone left an event behind. */
static CUresult query(const struct stream_queue *queue) {
    if (queue->is_gone) return DRIVER_CALL(cuEventQuery, (CUevent), queue->last);
    return DRIVER_CALL(cuStreamQuery, (CUstream), queue->stream);
}

static bool is_done(const struct stream_queue *queue) {
    if (queue->thread != NULL && queue->thread != &inside) return false;
    if ((!queue->is_gone && is_capturing(queue->stream)) || !push_context(queue->context)) return false;
    CUresult result = query(queue);
    pop_context();
    return tells_done(result);
}

uint64_t queues_claim_done(struct gated_gpu *gpu) {
    uint64_t launches = 0;
    pthread_mutex_lock(&table_mutex);
    for (struct stream_queue *each = gpu->streams; each != NULL; each = each->next) {
        uint64_t claimed = each->queued == 0 ? 0 : atomic_exchange(&each->queued, 0);
        if (claimed == 0) continue;
        if (is_done(each)) {
            window_begins_anew(each);
            launches += claimed;
        } else {
            each->queued += claimed;
        }
    }
    pthread_mutex_unlock(&table_mutex);
    return launches;
}

void queues_put_back(struct gated_gpu *gpu, CUcontext context, uint64_t launches) {
    pthread_mutex_lock(&table_mutex);
    struct stream_queue *each = gpu->streams;
    while (each != NULL && each->context != context) each = each->next;
    if (each != NULL) each->queued += launches;
    pthread_mutex_unlock(&table_mutex);
}

static uint64_t wait_for_stream(struct stream_queue *queue) {
    if (is_capturing(queue->stream) || queue->is_gone || queue->thread != thread_of(queue->stream)) return 0;
    window_begins_anew(queue);
    uint64_t launches = queue_claim(queue);
    bool done = push_context(queue->context);
    if (done) {
        done = tells_done(DRIVER_CALL(cuStreamSynchronize, (CUstream), queue->stream));
        pop_context();
    }
    if (!done) queue->queued += launches;
    return done ? launches : 0;
}

/* While a stream is being captured, a wait for all of them would spoil the capture: the others are waited for one by one.
 * Queues are only ever put in front of the list, so it can be walked while others launch. */
static uint64_t wait_for_others(struct gated_gpu *gpu, CUcontext context) {
    uint64_t launches = 0;
    pthread_mutex_lock(&table_mutex);
    struct stream_queue *first = gpu->streams;
    pthread_mutex_unlock(&table_mutex);
    int mode = relax_captures(CAPTURES_RELAXED);
    for (struct stream_queue *each = first; each != NULL; each = each->next)
        if (each->context == context && each->queued != 0) launches += wait_for_stream(each);
    relax_captures(mode);
    return launches;
}

static uint64_t wait_for_context(struct gated_gpu *gpu, CUcontext context) {
    if (captures_under_way()) return wait_for_others(gpu, context);
    uint64_t launches = queues_claim(gpu, context);
    bool done = push_context(context);
    if (done) {
        done = tells_done(DRIVER_CALL(cuCtxSynchronize, (void)));
        pop_context();
    }
    if (!done) queues_put_back(gpu, context, launches);
    return done ? launches : 0;
}

/* A context of the GPU with something in its queues that was not seen yet. */
static CUcontext next_busy(struct gated_gpu *gpu, const CUcontext *seen, unsigned int count) {
    CUcontext found = NULL;
    pthread_mutex_lock(&table_mutex);
    for (struct stream_queue *each = gpu->streams; each != NULL && found == NULL; each = each->next) {
        unsigned int place = 0;
        while (place < count && seen[place] != each->context) place++;
        if (each->queued != 0 && place == count) found = each->context;
    }
    pthread_mutex_unlock(&table_mutex);
    return found;
}

void queues_drain(struct gated_gpu *gpu, enum gpuyard_gate_drain why) {
    CUcontext seen[MOST_CONTEXTS];
    unsigned int count = 0;
    uint64_t since = monotonic_ns(), launches = 0;
    inside++;
    while (count < MOST_CONTEXTS && (seen[count] = next_busy(gpu, seen, count)) != NULL)
        launches += wait_for_context(gpu, seen[count++]);
    inside--;
    gpuyard_gate_drained(gpu->client, launches, why, monotonic_ns() - since);
}

static void leave_event(struct stream_queue *queue) {
    if (!push_context(queue->context)) return;
    CUresult result = DRIVER_CALL(cuEventCreate, (CUevent *, unsigned int), &queue->last, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) DRIVER_CALL(cuEventRecord, (CUevent, CUstream), queue->last, queue->stream);
    pop_context();
}

void queue_ends(CUstream stream) {
    struct stream_queue *queue = queue_of(stream);
    if (queue == NULL) return;
    inside++;
    if (queue->queued != 0) leave_event(queue);
    destroy_event(&queue->window_ends[0]);
    destroy_event(&queue->window_ends[1]);
    pthread_mutex_lock(&table_mutex);
    queue->is_gone = true;
    handles_changed++;
    pthread_mutex_unlock(&table_mutex);
    inside--;
}

void queues_end(struct gated_gpu *gpu, CUcontext context) {
    uint64_t launches = queues_claim(gpu, context);
    pthread_mutex_lock(&table_mutex);
    for (struct stream_queue *each = gpu->streams; each != NULL; each = each->next) {
        if (each->context != context) continue;
        each->last = each->window_ends[0] = each->window_ends[1] = NULL; /* ended with it */
        each->is_gone = true;
    }
    handles_changed++;
    pthread_mutex_unlock(&table_mutex);
    gpuyard_gate_drained(gpu->client, launches, GPUYARD_GATE_PROGRAM, 0);
}

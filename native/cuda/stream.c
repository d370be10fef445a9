#include "stream.h"

#include <math.h>
#include <string.h>

#include "context.h"
#include "graph.h"
#include "host_function.h"

enum { LOWEST_PRIORITY = 0, HIGHEST_PRIORITY = -5 };

static _Thread_local bool per_thread_default;
static _Thread_local struct stream *own[MOST_GPUS]; /* this thread's default stream in each primary context */
static _Atomic unsigned long long last_id = 2;      /* as CUDA: 1 and 2 are the default streams' */

void default_stream_is_per_thread(bool is) { per_thread_default = is; }

static bool waits_for_default(const struct stream *stream) { return (stream->flags & CU_STREAM_NON_BLOCKING) == 0; }

static CUresult make_stream(struct context *context, unsigned int flags, int priority, struct stream **made) {
    struct stream *stream = handle_new(HANDLE_STREAM, sizeof *stream);
    if (stream == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority > LOWEST_PRIORITY    ? LOWEST_PRIORITY
                       : priority < HIGHEST_PRIORITY ? HIGHEST_PRIORITY
                                                     : priority;
    stream->id = ++last_id;
    stream->tail = 0;
    stream->capture = NULL;
    pthread_mutex_lock(&context->gpu->lock);
    stream->next = context->streams;
    context->streams = stream;
    pthread_mutex_unlock(&context->gpu->lock);
    *made = stream;
    return CUDA_SUCCESS;
}

CUresult find_stream(CUstream handle, struct stream **stream) {
    CURRENT(context);
    bool per_thread = handle == CU_STREAM_PER_THREAD || (handle == NULL && per_thread_default);
    if (per_thread) {
        struct stream **mine = &own[context->gpu->index];
        if (handle_is(*mine, HANDLE_STREAM) && (*mine)->context == context) *stream = *mine;
        else if (make_stream(context, 0, 0, mine) == CUDA_SUCCESS) *stream = *mine;
        else return CUDA_ERROR_OUT_OF_MEMORY;
        return CUDA_SUCCESS;
    }
    if (handle == NULL || handle == CU_STREAM_LEGACY) *stream = &context->legacy;
    else if (handle_is(handle, HANDLE_STREAM)) *stream = handle;
    else return CUDA_ERROR_INVALID_HANDLE;
    return (*stream)->context->error;
}

double stream_begin(struct stream *stream) {
    struct context *context = stream->context;
    pthread_mutex_lock(&context->gpu->lock);
    double tail = stream->tail;
    if (stream == &context->legacy) tail = fmax(tail, context->blocking_tail);
    else if (waits_for_default(stream)) tail = fmax(tail, context->legacy.tail);
    pthread_mutex_unlock(&context->gpu->lock);
    return tail;
}

void stream_end(struct stream *stream, double tail) {
    struct context *context = stream->context;
    pthread_mutex_lock(&context->gpu->lock);
    stream->tail = fmax(stream->tail, tail);
    if (stream != &context->legacy && waits_for_default(stream))
        context->blocking_tail = fmax(context->blocking_tail, tail);
    pthread_mutex_unlock(&context->gpu->lock);
}

double stream_mark(struct stream *stream) { return gpu_mark(stream->context->gpu, stream_begin(stream)); }

double context_mark(struct context *context) {
    pthread_mutex_lock(&context->gpu->lock);
    double tail = context->legacy.tail;
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        tail = fmax(tail, stream->tail);
    pthread_mutex_unlock(&context->gpu->lock);
    return tail;
}

/* Waits for functions on all streams, or on those only that the default stream waits for. The list is left while
 * waiting, as a function may take its time. */
static void settle_all(struct context *context, bool of_default_only) {
    for (bool waited = true; waited;) {
        waited = false;
        struct host_mark mark = {NULL, 0};
        pthread_mutex_lock(&context->gpu->lock);
        for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
            if ((!of_default_only || waits_for_default(stream)) && stream->host_done < stream->host_issued)
                mark = host_mark_of(stream);
        pthread_mutex_unlock(&context->gpu->lock);
        waited = mark.stream != NULL;
        host_mark_wait(mark);
    }
    host_mark_wait(host_mark_of(&context->legacy));
}

void stream_settle(struct stream *stream) {
    host_mark_wait(host_mark_of(stream));
    if (stream == &stream->context->legacy) settle_all(stream->context, true);
    else if (waits_for_default(stream)) host_mark_wait(host_mark_of(&stream->context->legacy));
}

CUresult stream_synchronize(struct stream *stream) {
    if (stream->capture != NULL) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    gpu_wait(stream->context->gpu, stream_begin(stream));
    stream_settle(stream);
    return stream->context->error;
}

CUresult context_synchronize(struct context *context) {
    gpu_wait(context->gpu, context_mark(context));
    settle_all(context, false);
    return context->error;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
    CURRENT(context);
    if (stream == NULL || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    return make_stream(context, flags, priority, stream);
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    return cuStreamCreateWithPriority(stream, flags, 0);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
    if (!handle_is(handle, HANDLE_STREAM) || handle == &handle->context->legacy) return CUDA_ERROR_INVALID_HANDLE;
    struct context *context = handle->context;
    capture_abandon(handle);
    pthread_mutex_lock(&context->gpu->lock);
    for (struct stream **link = &context->streams; *link != NULL; link = &(*link)->next) {
        if (*link != handle) continue;
        *link = handle->next;
        break;
    }
    pthread_mutex_unlock(&context->gpu->lock);
    handle_drop(handle); /* what is queued still takes its time: the GPU's tail and the default stream know of it */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

EXPORT CUresult cuStreamSynchronize(CUstream handle) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    return result == CUDA_SUCCESS ? stream_synchronize(stream) : result;
}

EXPORT CUresult cuStreamQuery(CUstream handle) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (stream->capture != NULL) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    bool done = gpu_has_reached(stream->context->gpu, stream_begin(stream)) && host_mark_passed(host_mark_of(stream));
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* Defines a function that answers one thing about a stream. */
#define ANSWER(name, type, expression)                                                 \
    EXPORT CUresult name(CUstream handle, type *answer) {                              \
        struct stream *stream;                                                         \
        CUresult result = find_stream(handle, &stream);                                \
        if (result == CUDA_SUCCESS && answer == NULL) return CUDA_ERROR_INVALID_VALUE; \
        if (result == CUDA_SUCCESS) *answer = (expression);                            \
        return result;                                                                 \
    }

ANSWER(cuStreamGetFlags, unsigned int, stream->flags)
ANSWER(cuStreamGetPriority, int, stream->priority)
ANSWER(cuStreamGetId, unsigned long long, stream->id)
ANSWER(cuStreamGetCtx, CUcontext, stream->context)
ANSWER(cuStreamGetDevice, CUdevice, (CUdevice)stream->context->gpu->index)

EXPORT CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, void **green) {
    if (green != NULL) *green = NULL; /* there are no green contexts */
    return cuStreamGetCtx(stream, context);
}

EXPORT CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes, unsigned int flags) {
    (void)address, (void)bytes, (void)flags; /* managed memory is always everywhere */
    struct stream *stream;
    return find_stream(handle, &stream);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    if (least != NULL) *least = LOWEST_PRIORITY;
    if (greatest != NULL) *greatest = HIGHEST_PRIORITY;
    return machine_state();
}

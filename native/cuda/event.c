#include "event.h"

#include "context.h"
#include "graph.h"

EXPORT CUresult cuEventCreate(CUevent *made, unsigned int flags) {
    CURRENT(context);
    if (made == NULL || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS) return CUDA_ERROR_NOT_SUPPORTED;
    struct event *event = handle_new(HANDLE_EVENT, sizeof *event);
    if (event == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    event->gpu = context->gpu;
    event->context = context;
    event->flags = flags;
    event->recorded = false;
    event->capture = NULL;
    event->after = (struct host_mark){NULL, 0};
    *made = event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    if (!handle_is(event, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    capture_forget(event);
    handle_drop(event);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags) {
    (void)flags; /* whether an event in a capture is seen outside */
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (!handle_is(event, HANDLE_EVENT) || event->gpu != stream->context->gpu) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != NULL) return capture_event(stream, event);
    event->position = stream_mark(stream);
    event->after = host_mark_of(stream);
    capture_forget(event);
    event->recorded = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

EXPORT CUresult cuEventQuery(CUevent event) {
    if (!handle_is(event, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != NULL) return CUDA_ERROR_CAPTURED_EVENT;
    if (!event->recorded) return CUDA_SUCCESS;
    if (event->context->error != CUDA_SUCCESS) return event->context->error;
    bool done = gpu_has_reached(event->gpu, event->position) && host_mark_passed(event->after);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
    if (!handle_is(event, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != NULL) return CUDA_ERROR_CAPTURED_EVENT;
    if (!event->recorded) return CUDA_SUCCESS;
    gpu_wait(event->gpu, event->position);
    host_mark_wait(event->after);
    return event->context->error;
}

EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    if (milliseconds == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(start, HANDLE_EVENT) || !handle_is(end, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    if (start->gpu != end->gpu || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
    CUresult first = cuEventQuery(start), second = cuEventQuery(end);
    if (first != CUDA_SUCCESS || second != CUDA_SUCCESS) return first != CUDA_SUCCESS ? first : second;
    *milliseconds = (float)(1000 * gpu_seconds_between(start->gpu, start->position, end->position));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags) {
    (void)flags;
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (!handle_is(event, HANDLE_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != NULL) return capture_wait(stream, event);
    if (stream->capture != NULL || !event->recorded) return CUDA_SUCCESS;
    double position = event->position;
    if (event->gpu != stream->context->gpu) { /* other GPUs have their own device time, so it goes by the clock */
        double now = timeline_now();
        pthread_mutex_lock(&event->gpu->lock);
        double at = timeline_reached_at(&event->gpu->client, position, now);
        pthread_mutex_unlock(&event->gpu->lock);
        position = timeline_position(&stream->context->gpu->client, now) + (at > now ? at - now : 0);
    }
    stream_end(stream, position);
    if (host_mark_passed(event->after) || event->after.stream == stream) return CUDA_SUCCESS;
    return host_function_queue(stream, position, NULL, NULL, event->after);
}

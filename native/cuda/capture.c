/* Capturing: what is put onto a stream becomes nodes of a graph. Streams that wait for an event of the capture join it.
 */
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "graph.h"

#define MOST_AFTER 64

struct capture {
    struct graph *graph;
    struct stream *origin; /* where it was begun, and is ended */
    unsigned long long id;
    struct graph_node *after[MOST_AFTER]; /* what the stream's next node comes after */
    size_t after_count;
};

static _Atomic unsigned long long last_id;

static struct capture *join(struct capture *other, struct stream *stream) {
    struct capture *capture = malloc(sizeof *capture);
    if (capture == NULL) return NULL;
    *capture = *other;
    if (stream != NULL) stream->capture = capture;
    return capture;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, unsigned int mode) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (mode > 2) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream == &stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct capture *capture = calloc(1, sizeof *capture);
    if (capture == NULL || (capture->graph = graph_new()) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    capture->origin = stream;
    capture->id = ++last_id;
    stream->capture = capture;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture(CUstream stream) { return cuStreamBeginCapture_v2(stream, 0); }

/* Lets go of all streams that took part. */
static void leave(const struct capture *ended) {
    struct stream *origin = ended->origin;
    unsigned long long id = ended->id;
    for (struct stream *stream = origin->context->streams; stream != NULL; stream = stream->next) {
        if (stream->capture == NULL || stream->capture->id != id) continue;
        free(stream->capture);
        stream->capture = NULL;
    }
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (graph == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture == NULL) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    *graph = stream->capture->graph;
    leave(stream->capture);
    return CUDA_SUCCESS;
}

void capture_abandon(struct stream *stream) {
    if (stream->capture == NULL || stream->capture->origin != stream) return;
    struct graph *graph = stream->capture->graph;
    leave(stream->capture);
    graph_free(graph);
}

CUresult capture_operation(struct stream *stream, struct operation *operation) {
    struct capture *capture = stream->capture;
    struct graph_node *node;
    CUresult result = graph_add(capture->graph, operation, capture->after, capture->after_count, &node);
    if (result != CUDA_SUCCESS) {
        operation_free(operation);
        return result;
    }
    capture->after[0] = node;
    capture->after_count = 1;
    return CUDA_SUCCESS;
}

void capture_forget(struct event *event) {
    free(event->capture);
    event->capture = NULL;
}

/* An event keeps a copy: what comes after it comes after what the stream had then. */
CUresult capture_event(struct stream *stream, struct event *event) {
    capture_forget(event);
    event->capture = join(stream->capture, NULL);
    event->recorded = false;
    return event->capture == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult capture_wait(struct stream *stream, struct event *event) {
    struct capture *from = event->capture;
    if (from->origin->capture == NULL || from->origin->capture->id != from->id)
        return CUDA_SUCCESS; /* that capture has ended */
    if (stream->capture == NULL) return join(from, stream) == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (stream->capture->id != from->id) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    for (size_t i = 0; i < from->after_count; i++) {
        if (stream->capture->after_count == MOST_AFTER) return CUDA_ERROR_NOT_SUPPORTED;
        stream->capture->after[stream->capture->after_count++] = from->after[i];
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, unsigned int *status) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result == CUDA_SUCCESS && status == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) *status = stream->capture != NULL ? CU_CAPTURE_ACTIVE : CU_CAPTURE_NONE;
    return result;
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, unsigned int *status, uint64_t *id, CUgraph *graph,
                                          const CUgraphNode **after, size_t *count) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    struct capture *capture = stream->capture;
    if (status == NULL) return CUDA_ERROR_INVALID_VALUE;
    *status = capture != NULL ? CU_CAPTURE_ACTIVE : CU_CAPTURE_NONE;
    if (capture == NULL) return CUDA_SUCCESS;
    if (id != NULL) *id = capture->id;
    if (graph != NULL) *graph = capture->graph;
    if (after != NULL) *after = capture->after;
    if (count != NULL) *count = capture->after_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, unsigned int *status, uint64_t *id, CUgraph *graph,
                                          const CUgraphNode **after, const CUgraphEdgeData **edges, size_t *count) {
    if (edges != NULL) *edges = NULL; /* all are whole dependencies */
    return cuStreamGetCaptureInfo_v2(stream, status, id, graph, after, count);
}

EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, unsigned int *status, uint64_t *id) {
    return cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

/* How strictly a thread is watched while others capture: here nothing unsafe is noticed, so nothing changes. */
EXPORT CUresult cuThreadExchangeStreamCaptureMode(unsigned int *mode) {
    static _Thread_local unsigned int current;
    if (mode == NULL || *mode > 2) return CUDA_ERROR_INVALID_VALUE;
    unsigned int before = current;
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

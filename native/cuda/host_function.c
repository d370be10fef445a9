#include "host_function.h"

#include <pthread.h>
#include <stdlib.h>

#include "context.h"

struct host_function {
    struct stream *stream;
    struct gpu *gpu;
    uint64_t number; /* of those on its stream */
    double position;
    CUhostFn call;
    void *data;
    struct host_mark after;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

struct host_mark host_mark_of(struct stream *stream) { return (struct host_mark){stream, stream->host_issued}; }

bool host_mark_passed(struct host_mark mark) { return mark.stream == NULL || mark.stream->host_done >= mark.count; }

void host_mark_wait(struct host_mark mark) {
    if (host_mark_passed(mark)) return;
    pthread_mutex_lock(&lock);
    while (!host_mark_passed(mark)) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
}

static void *run(void *argument) {
    struct host_function *function = argument;
    host_mark_wait((struct host_mark){function->stream, function->number - 1});
    host_mark_wait(function->after);
    gpu_wait(function->gpu, function->position);
    if (function->call != NULL) function->call(function->data);
    pthread_mutex_lock(&lock);
    function->stream->host_done = function->number;
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&lock);
    free(function);
    return NULL;
}

CUresult host_function_queue(struct stream *stream, double position, CUhostFn call, void *data,
                             struct host_mark after) {
    struct host_function *function = malloc(sizeof *function);
    if (function == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *function = (struct host_function){stream, stream->context->gpu, 0, position, call, data, after};
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    pthread_mutex_lock(&lock); /* numbers are given out in order, and none without a thread that will count it */
    function->number = stream->host_issued + 1;
    int failed = pthread_create(&thread, &detached, run, function);
    if (!failed) stream->host_issued = function->number;
    pthread_mutex_unlock(&lock);
    pthread_attr_destroy(&detached);
    if (!failed) return CUDA_SUCCESS;
    free(function);
    return CUDA_ERROR_OPERATING_SYSTEM;
}

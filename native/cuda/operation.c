#include "operation.h"

#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "host_function.h"
#include "module.h"

CUresult operation_run(struct context *context, const struct operation *operation, double *tail,
                       struct stream *stream) {
    switch (operation->kind) {
        case OPERATION_KERNEL: return launch_run(context, &operation->launch, tail);
        case OPERATION_COPY: copy_run(context->gpu, &operation->copy, tail); return CUDA_SUCCESS;
        case OPERATION_FILL: fill_run(context->gpu, &operation->fill, tail); return CUDA_SUCCESS;
        case OPERATION_HOST: {
            struct host_mark nothing = {NULL, 0};
            return host_function_queue(stream, *tail, operation->host.call, operation->host.data, nothing);
        }
        default: return CUDA_SUCCESS;
    }
}

void operation_free(struct operation *operation) {
    if (operation->kind == OPERATION_KERNEL) free(operation->launch.arguments);
}

CUresult operation_copy(const struct operation *from, struct operation *to) {
    *to = *from;
    if (from->kind != OPERATION_KERNEL || from->launch.arguments == NULL) return CUDA_SUCCESS;
    size_t bytes = function_argument_bytes(from->launch.function);
    to->launch.arguments = malloc(bytes + 1);
    if (to->launch.arguments == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(to->launch.arguments, from->launch.arguments, bytes);
    return CUDA_SUCCESS;
}

CUresult stream_put(struct stream *stream, struct operation *operation) {
    if (stream->capture != NULL) return capture_operation(stream, operation);
    if (operation->kind != OPERATION_HOST) stream_settle(stream);
    double tail = stream_begin(stream);
    CUresult result = operation_run(stream->context, operation, &tail, stream);
    stream_end(stream, tail);
    operation_free(operation);
    return result;
}

EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn call, void *data) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (call == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct operation operation = {.kind = OPERATION_HOST, .host = {call, data}};
    return stream_put(stream, &operation);
}

struct callback {
    CUstreamCallback call;
    CUstream stream;
    void *data;
};

static void call_back(void *argument) {
    struct callback callback = *(struct callback *)argument;
    free(argument);
    callback.call(callback.stream, CUDA_SUCCESS, callback.data);
}

EXPORT CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback call, void *data, unsigned int flags) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (call == NULL || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct callback *callback = malloc(sizeof *callback);
    if (callback == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *callback = (struct callback){call, handle, data};
    result = cuLaunchHostFunc(handle, call_back, callback);
    if (result != CUDA_SUCCESS) free(callback);
    return result;
}

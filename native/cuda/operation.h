/* What goes onto a stream: kernels, copies, fills and functions of the host. A stream that is captured keeps them as
 * nodes of a graph; otherwise they are computed at once, and take their time on the GPU's time line. */
#ifndef GPUYARD_CUDA_OPERATION_H
#define GPUYARD_CUDA_OPERATION_H

#include "context.h"

struct launch {
    struct function *function;
    unsigned int grid[3], block[3], shared_bytes;
    unsigned char *arguments; /* as one block of memory, laid out as the kernel's parameters are */
};

/* One side of a copy, as it is in memory: rows of `pitch` bytes, `height` of them to a layer. */
struct copy_side {
    unsigned char *start;
    size_t pitch, height;
};

struct copy {
    struct copy_side from, to;
    size_t width_bytes, height, depth;
    enum engine engine;
    bool pinned; /* the side on the host is memory that the GPU reaches by itself */
    bool between_gpus;
};

struct host_call {
    CUhostFn call;
    void *data;
};

enum operation_kind { OPERATION_KERNEL, OPERATION_COPY, OPERATION_FILL, OPERATION_HOST, OPERATION_EMPTY };

struct operation {
    enum operation_kind kind;
    union {
        struct launch launch;
        struct copy copy;
        CUDA_MEMSET_NODE_PARAMS fill;
        struct host_call host;
    };
};

/* Computes an operation's result and moves `*tail`, where it begins, to where it ends. */
CUresult operation_run(struct context *context, const struct operation *operation, double *tail, struct stream *stream);

/* Puts an operation onto a stream, or into the graph for which the stream is captured. The stream owns its arguments.
 */
CUresult stream_put(struct stream *stream, struct operation *operation);

/* The parts of operation_run. */
CUresult launch_run(struct context *context, const struct launch *launch, double *tail);
void copy_run(struct gpu *gpu, const struct copy *copy, double *tail);
void fill_run(struct gpu *gpu, const CUDA_MEMSET_NODE_PARAMS *fill, double *tail);

/* Checks a copy and finds out what it is between. */
CUresult copy_make(const CUDA_MEMCPY3D *asked, struct operation *operation);
CUresult fill_check(const CUDA_MEMSET_NODE_PARAMS *fill);

/* Makes a launch, with a copy of its arguments in memory of its own. */
CUresult launch_make(struct function *function, const unsigned int grid[3], const unsigned int block[3],
                     unsigned int shared_bytes, void **parameters, void **extra, struct operation *operation);
void operation_free(struct operation *operation);
CUresult operation_copy(const struct operation *from, struct operation *to);

#endif

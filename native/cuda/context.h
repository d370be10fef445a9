/* Contexts, and which one is current in a thread. */
#ifndef GPUYARD_CUDA_CONTEXT_H
#define GPUYARD_CUDA_CONTEXT_H

#include "gpu.h"
#include "handles.h"
#include "stream.h"

struct context {
    struct handle handle;
    struct gpu *gpu;
    bool primary;
    unsigned int references, flags;
    unsigned long long id;
    unsigned int peers;     /* one bit for each GPU whose memory it may use */
    _Atomic CUresult error; /* of a kernel that failed: from then on nothing works */
    struct stream legacy;   /* the default stream that waits for others, and others for it */
    struct stream *streams; /* those that were created, linked by `next` */
    double blocking_tail;   /* of streams that wait for the default stream */
};

/* Finds the current context; fails if there is none, it is gone, or a kernel has failed in it. */
CUresult current_context(struct context **context);

/* The same for a handle, with NULL for the current one. */
CUresult named_context(CUcontext handle, struct context **context);

/* The primary context of a GPU, whether it is alive or not. */
struct context *primary_context(const struct gpu *gpu);

#define CURRENT(context)                             \
    struct context *context;                         \
    do {                                             \
        CUresult found_ = current_context(&context); \
        if (found_ != CUDA_SUCCESS) return found_;   \
    } while (0)

#endif

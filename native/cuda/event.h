/* Events: marks on streams, and the time at which the GPU comes by. */
#ifndef GPUYARD_CUDA_EVENT_H
#define GPUYARD_CUDA_EVENT_H

#include "host_function.h"

struct event {
    struct handle handle;
    struct gpu *gpu;
    struct context *context;
    unsigned int flags;
    bool recorded;
    double position;
    struct host_mark after;
    struct capture *capture; /* where it was recorded, if that stream was captured */
};

#endif

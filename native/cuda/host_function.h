/* Functions of the program that run on the host when a stream has come so far. */
#ifndef GPUYARD_CUDA_HOST_FUNCTION_H
#define GPUYARD_CUDA_HOST_FUNCTION_H

#include "stream.h"

/* Up to where on a stream all functions have to be done. */
struct host_mark {
    struct stream *stream; /* NULL: nothing */
    uint64_t count;
};

/* Puts a function onto a stream: a thread of its own calls it once a position is reached and all functions before it
 * are done, and those up to `after`. Without a function, only the waiting is done. */
CUresult host_function_queue(struct stream *stream, double position, CUhostFn call, void *data, struct host_mark after);

struct host_mark host_mark_of(struct stream *stream);
bool host_mark_passed(struct host_mark mark);
void host_mark_wait(struct host_mark mark);

#endif

/* Streams: queues of operations that run one after the other. */
#ifndef GPUYARD_CUDA_STREAM_H
#define GPUYARD_CUDA_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "handles.h"

struct context;
struct capture;

struct stream {
    struct handle handle;
    struct stream *next;
    struct context *context;
    unsigned int flags;
    int priority;
    unsigned long long id;
    double tail;             /* under the GPU's lock */
    struct capture *capture; /* what is recorded instead of run, if anything */
    /* Host functions that were ever put on the stream, and that have run. They never start again from 0, not even when
     * another stream gets this memory, so that whoever waits for one is not misled. */
    _Atomic uint64_t host_issued, host_done;
};

/* Functions whose default stream is the thread's own call the others in between. */
void default_stream_is_per_thread(bool is);

/* Finds the stream behind a handle, or the default stream of the current context. */
CUresult find_stream(CUstream handle, struct stream **stream);

/* Where the next operation of a stream begins at the earliest, and that it ended: the default stream comes after all
 * that was queued on others, and others after it, unless they are of those that do not wait. */
double stream_begin(struct stream *stream);
void stream_end(struct stream *stream, double tail);

/* The position at which all that is queued on a stream, or a whole context, will be done. */
double stream_mark(struct stream *stream);
double context_mark(struct context *context);

/* Waits for the functions on the host that what comes next on a stream has to come after. */
void stream_settle(struct stream *stream);

CUresult stream_synchronize(struct stream *stream);
CUresult context_synchronize(struct context *context);

#endif

/* Handles are addresses of objects that say what they are. Memory of an object that is gone is kept for others of its
 * kind, so that a stale handle is noticed instead of followed. */
#ifndef GPUYARD_CUDA_HANDLES_H
#define GPUYARD_CUDA_HANDLES_H

#include <stdbool.h>
#include <stddef.h>

enum handle_kind {
    HANDLE_CONTEXT,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_MODULE,
    HANDLE_FUNCTION,
    HANDLE_LIBRARY,
    HANDLE_LINK,
    HANDLE_POOL,
    HANDLE_GRAPH,
    HANDLE_GRAPH_NODE,
    HANDLE_GRAPH_EXEC,
    HANDLE_USER_OBJECT,
    HANDLE_KINDS,
};

/* The first member of every object. */
struct handle {
    unsigned int mark; /* says that it is alive, and of which kind */
    struct handle *next;
};

/* Returns an object, or NULL without memory. It is zero when new, and as it was left when it is used again. */
void *handle_new(enum handle_kind kind, size_t bytes);

/* Makes an object that lives elsewhere a valid handle. */
void handle_mark(struct handle *handle, enum handle_kind kind);
void handle_unmark(struct handle *handle);

bool handle_is(const void *object, enum handle_kind kind);
void handle_drop(void *object);

#endif

/* A file that processes of one user map into their memory, and the locks on its bytes. */
#ifndef GPUYARD_SEGMENT_H
#define GPUYARD_SEGMENT_H

#include <stddef.h>

#include "node.h"

struct gpuyard_segment;

/* Opens a file of this user; it can be locked at once, and read after `gpuyard_segment_map`. */
GPUYARD_API int gpuyard_segment_open(const char *path, bool create, struct gpuyard_segment **segment);

/* Gives an empty file its length, in memory that is really there: a full folder fails here, not later. */
GPUYARD_API int gpuyard_segment_allocate(struct gpuyard_segment *segment, uint64_t length);

/* Makes what is in the file readable. The memory is there until `gpuyard_segment_destroy`, but reads as zeros, and is
 * nobody else's, once the segment is closed, and in a forked child. */
GPUYARD_API int gpuyard_segment_map(struct gpuyard_segment *segment);
GPUYARD_API void *gpuyard_segment_memory(const struct gpuyard_segment *segment);
GPUYARD_API uint64_t gpuyard_segment_length(const struct gpuyard_segment *segment);

/* Locks a byte until `drop`, `close` or this process's death; 1 if another process has it. */
GPUYARD_API int gpuyard_segment_hold(struct gpuyard_segment *segment, uint64_t byte, bool shared);
GPUYARD_API int gpuyard_segment_drop(struct gpuyard_segment *segment, uint64_t byte);

/* 1 if anybody but this opening of the file holds a byte, 0 if nobody does. */
GPUYARD_API int gpuyard_segment_held_elsewhere(const struct gpuyard_segment *segment, uint64_t byte);

/* GPUYARD_OK, or why it cannot be used: closed, or inherited through a fork. */
GPUYARD_API int gpuyard_segment_state(const struct gpuyard_segment *segment);

/* Drops all locks; the second frees the rest as well. */
GPUYARD_API void gpuyard_segment_close(struct gpuyard_segment *segment);
GPUYARD_API void gpuyard_segment_destroy(struct gpuyard_segment *segment);

/* Keeps all other processes, and threads of this one, from what a byte stands for, until unlocked. */
int segment_lock(struct gpuyard_segment *segment, uint64_t byte);
void segment_unlock(struct gpuyard_segment *segment, uint64_t byte);

/* Whether the path still leads to this file: a stale one may have been removed since it was opened. */
bool segment_is_current(const struct gpuyard_segment *segment);
bool segment_is_empty(const struct gpuyard_segment *segment);
void segment_unlink(const struct gpuyard_segment *segment);

#endif

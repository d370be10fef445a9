/* The sliding window: groups of launches on a stream, of which the next waits until at most one is still queued. */
#ifndef GPUYARD_GATE_WINDOW_H
#define GPUYARD_GATE_WINDOW_H

#include "streams.h"

/* Before a launch: at the beginning of a group, waits for the end of the last but one. After it: at the end of a group,
 * leaves an event behind. */
void window_begins(struct stream_queue *queue);
void window_ends(struct stream_queue *queue);

/* What is waited for belongs to no group any more: or the end of a group would be taken for that of a later one. */
void window_begins_anew(struct stream_queue *queue);

#endif

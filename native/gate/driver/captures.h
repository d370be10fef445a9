/* Streams whose launches are being recorded into a graph: nothing of them reaches the GPU, so the gate lets them be. */
#ifndef GPUYARD_GATE_CAPTURES_H
#define GPUYARD_GATE_CAPTURES_H

#include "process.h"

#define CAPTURES_RELAXED 2 /* a thread that may wait although others capture */

/* Captures of this process that have begun and not ended. */
extern _Atomic int captures;

static inline bool captures_under_way(void) { return atomic_load_explicit(&captures, memory_order_relaxed) > 0; }

/* Whether a stream is being captured; asks the driver only if any is. */
bool is_capturing(CUstream stream);

/* Sets how this thread gets on with captures of others; returns what it was. */
int relax_captures(int mode);

#endif

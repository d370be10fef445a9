/* The sharing policies by number: gpuyard/policies/timeshare says what they mean. */
#ifndef GPUYARD_RATES_H
#define GPUYARD_RATES_H

#include "node.h"

/* Whether each client gets a ticket for what it has queued, and lines up anew once that is done. */
static inline bool takes_turns(const struct gpuyard_sharing *sharing) { return sharing->policy == GPUYARD_FIFO; }

/* The part of the GPU that a client with this share keeps from others while it is connected. */
double held_share(const struct gpuyard_sharing *sharing, double share);

#endif

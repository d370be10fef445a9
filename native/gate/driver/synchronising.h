/* What every function does that tells a program that its work is done. */
#ifndef GPUYARD_GATE_SYNCHRONISING_H
#define GPUYARD_GATE_SYNCHRONISING_H

#include "streams.h"

/* So many launches that were claimed are done, and so is whatever the driver says: with nothing left, the job is done. */
void synchronised(struct gated_gpu *gpu, uint64_t claimed);

#endif

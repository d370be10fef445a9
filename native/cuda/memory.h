/* Memory of GPUs, which is reserved memory of the host, and memory of the host that GPUs can reach. */
#ifndef GPUYARD_CUDA_MEMORY_H
#define GPUYARD_CUDA_MEMORY_H

#include "context.h"
#include "ranges.h"

#define MEMORY_ALIGNMENT 512 /* of every block; its size counts in whole multiples */

/* Takes memory of a GPU, and counts it there. */
CUresult memory_take(struct context *context, size_t bytes, enum range_kind kind, struct memory_pool *pool,
                     CUdeviceptr *address);

/* Gives back what `memory_take` took. */
CUresult memory_give_back(CUdeviceptr address);

void memory_of_context_end(struct context *context);

#endif

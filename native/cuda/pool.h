/* Memory pools, from which memory is taken in the order of a stream. */
#ifndef GPUYARD_CUDA_POOL_H
#define GPUYARD_CUDA_POOL_H

#include "context.h"

/* Adds to the bytes that a pool has given out. */
void pool_count(struct memory_pool *pool, int64_t bytes);

#endif

/* Which memory an address belongs to. */
#ifndef GPUYARD_CUDA_RANGES_H
#define GPUYARD_CUDA_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "context.h"

enum range_kind { RANGE_DEVICE, RANGE_MANAGED, RANGE_PINNED, RANGE_REGISTERED };

struct range {
    uintptr_t start;
    size_t bytes;   /* as the program asked for */
    size_t mapped;  /* as the system gave; 0 if the C library did */
    size_t counted; /* against the GPU's memory */
    enum range_kind kind;
    unsigned int flags;
    unsigned long long id;
    struct context *context;
    struct memory_pool *pool; /* NULL: of none */
};

bool range_add(struct range range);

/* Takes out the range that starts at an address, if it is one of the kinds in `kinds` (one bit each). */
bool range_take(uintptr_t start, unsigned int kinds, struct range *taken);

/* Takes out any range of a context. */
bool range_take_of(const struct context *context, struct range *taken);

bool range_find(uintptr_t address, struct range *found);

/* Whether all bytes from an address on belong to one range. */
bool range_holds(uintptr_t address, size_t bytes, struct range *found);

#define ANY_OF(kind) (1u << (kind))

#endif

/* What every function does that allocates memory of a GPU, or gives it back. */
#ifndef GPUYARD_GATE_ALLOCATING_H
#define GPUYARD_GATE_ALLOCATING_H

#include "allocations.h"

/* An allocation under way: at which GPU, in which context, how much. */
struct allocating {
    struct gated_gpu *gpu; /* NULL: it does not concern the gate */
    CUcontext context;
    uint64_t bytes;
};

/* Takes memory from the limit; false if that forbids it. */
bool allocation_begins(struct allocating *allocating, uint64_t bytes);

/* Remembers what came of it, or gives the memory back to the limit. */
void allocation_ends(struct allocating *allocating, CUresult result, enum allocation_kind kind, uint64_t handle);

/* A function that allocates `size` bytes and writes what stands for them to `made`. */
#define ALLOCATING(name, kind, made, size, arguments, ...)                                                    \
    EXPORT CUresult name(__VA_ARGS__) {                                                                       \
        __typeof__(&name) real = REAL(name);                                                                  \
        struct allocating allocating;                                                                         \
        if (!allocation_begins(&allocating, size)) return CUDA_ERROR_OUT_OF_MEMORY;                           \
        inside++;                                                                                             \
        CUresult result = real arguments;                                                                     \
        inside--;                                                                                             \
        allocation_ends(&allocating, result, kind, result == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*(made) : 0); \
        return result;                                                                                        \
    }

/* A function that gives back what `given` stands for. */
#define FREEING(name, kind, given, arguments, ...)                                      \
    EXPORT CUresult name(__VA_ARGS__) {                                                 \
        __typeof__(&name) real = REAL(name);                                            \
        if (!is_gated()) return real arguments;                                         \
        uint64_t number = allocation_number(kind, (uint64_t)(uintptr_t)(given));        \
        inside++;                                                                       \
        CUresult result = real arguments;                                               \
        inside--;                                                                       \
        if (result == CUDA_SUCCESS)                                                     \
            allocation_remove(kind, (uint64_t)(uintptr_t)(given), number);              \
        return result;                                                                  \
    }

#endif

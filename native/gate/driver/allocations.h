/* What memory this process has allocated on GPUs: so that giving it back is credited with its size. */
#ifndef GPUYARD_GATE_ALLOCATIONS_H
#define GPUYARD_GATE_ALLOCATIONS_H

#include "process.h"

/* Handles of different kinds may be the same number. */
enum allocation_kind { ADDRESS_OF_MEMORY, HANDLE_OF_MEMORY, HANDLE_OF_ARRAY };

/* Remembers memory that was reserved at the gate; if there is no room to remember, its size stays counted. */
void allocation_add(enum allocation_kind kind, uint64_t handle, struct gated_gpu *gpu, CUcontext context, uint64_t bytes);

/* One more user of what a handle stands for. */
void allocation_share(enum allocation_kind kind, uint64_t handle);

/* Which allocation a handle stands for now; 0 if none that we know. Once the driver has it back, the handle may stand for
 * another before we have heard of either. */
uint64_t allocation_number(enum allocation_kind kind, uint64_t handle);

/* Gives back the memory of an allocation, with its last user. */
void allocation_remove(enum allocation_kind kind, uint64_t handle, uint64_t number);

/* In a forked child: it has allocated nothing. */
void allocations_forget(void);

/* Gives back all memory of a context. */
void allocations_end(CUcontext context);

#endif

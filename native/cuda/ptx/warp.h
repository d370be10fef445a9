/* A program that runs: the grid, one block of it at a time, and its warps.
 *
 * The 32 threads of a warp are its lanes. Those that stand at the same instruction execute it together; of several
 * places the deepest call and then the first in the text goes on, so that lanes which took different branches meet
 * again.
 */
#ifndef GPUYARD_PTX_WARP_H
#define GPUYARD_PTX_WARP_H

#include "program.h"

#define ALL_LANES 0xffffffffu
#define BARRIERS 16
#define DEEPEST_CALL 128
#define REMEMBERED_RANGES 4

/* Threads that wait for each other. */
struct barrier {
    uint32_t arrived;
    uint32_t expected; /* 0: all threads of the block */
    uint32_t votes;    /* of those that arrived, how many said yes */
};

struct memory_range {
    uintptr_t begin, end;
};

struct block {
    const struct ptx_launch *launch;
    unsigned char *shared;
    size_t shared_bytes;
    struct warp *warps;
    unsigned int warp_count, thread_count, alive_count;
    struct barrier barriers[BARRIERS];
    struct memory_range remembered[REMEMBERED_RANGES]; /* memory that was found before */
    unsigned int remembered_next;
    enum ptx_result result;
    char *message;
    uint64_t clock;
};

struct frame {
    const struct ptx_function *function;
    const struct instruction *call; /* that is returned to */
    uint32_t registers, memory;     /* where they begin */
};

enum waiting { WAITING_NOT, WAITING_BARRIER, WAITING_WARP };

struct lane {
    const struct instruction *next;
    uint32_t depth;
    enum waiting waiting;
    uint32_t barrier;
    struct frame *frames;
    unsigned char *memory;
};

struct warp {
    struct block *block;
    uint64_t (*registers)[LANES];
    uint32_t register_room;
    size_t memory_bytes; /* of each lane */
    uint64_t specials[SPECIALS][LANES];
    uint64_t passed_ns; /* since the block began, as far as it took notice of time */
    uint8_t carry[LANES];
    uint32_t existing, alive;
    struct lane lanes[LANES];
    uint32_t selections;
    /* of the lanes that are executing */
    const struct ptx_function *function;
    uint64_t (*base)[LANES]; /* their registers */
};

static inline const uint64_t *source_values(const struct warp *warp, struct source source) {
    switch (source.kind) {
        case SOURCE_REGISTER: return warp->base[source.index];
        case SOURCE_CONSTANT: return warp->function->constants[source.index];
        default: return warp->specials[source.index];
    }
}

/* Ends the launch; the first to fail is the one that is told. */
__attribute__((format(printf, 4, 5))) void warp_fail(struct warp *warp, const struct instruction *instruction,
                                                     enum ptx_result result, const char *format, ...);

/* Finds the memory behind an address; NULL after a failure. */
unsigned char *warp_address(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                            uint64_t address, enum space space, size_t bytes);

/* The address that an instruction's operand `from[0]` names for a lane. */
unsigned char *operand_address(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                               size_t bytes);

/* Calls of functions that no text defines: printf, assert, malloc and free. */
void run_builtin(struct warp *warp, const struct instruction *instruction, const struct ptx_function *function,
                 uint32_t lanes);

/* Runs the code of `instruction`, of the kind CONTROL_WARP, for lanes that are all there. */
void run_warp_instruction(struct warp *warp, const struct instruction *instruction, uint32_t lanes);

/* Which lanes have to be there for it. */
uint32_t warp_instruction_members(struct warp *warp, const struct instruction *instruction, uint32_t lanes);

/* Goes on with a warp until all of its lanes wait or have ended; false after a failure. `budget` is a number of steps
 * after which others get their turn. */
bool warp_run(struct warp *warp, uint64_t budget);

/* Lanes come to a barrier. */
void barrier_arrive(struct warp *warp, const struct instruction *instruction, uint32_t lanes);

/* Lets lanes that wait at a barrier go on, if all are there. */
void barrier_check(struct block *block, uint32_t number);

#endif

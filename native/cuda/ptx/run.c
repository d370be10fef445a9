/* A launch: blocks one after the other, the warps of each in turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "warp.h"

#define STEPS_PER_TURN 100000
#define RECURSION_BYTES 16384 /* of each thread's memory, and registers, beyond what calls without recursion need */
#define RECURSION_REGISTERS 1024

static size_t align(size_t bytes, size_t alignment) { return (bytes + alignment - 1) & ~(alignment - 1); }

static size_t align16(size_t bytes) { return align(bytes, 16); }

static void free_block(struct block *block) {
    for (unsigned int w = 0; block->warps != NULL && w < block->warp_count; w++) {
        free(block->warps[w].registers);
        free(block->warps[w].lanes[0].frames);
        free(block->warps[w].lanes[0].memory);
    }
    free(block->warps);
    free(block->shared);
}

static void set_specials(struct warp *warp, unsigned int number, const unsigned int block_size[3],
                         const unsigned int grid[3]) {
    for (unsigned int i = 0; i < LANES; i++) {
        unsigned int thread = number * LANES + i;
        uint32_t bit = 1u << i;
        warp->specials[SPECIAL_TID_X][i] = thread % block_size[0];
        warp->specials[SPECIAL_TID_Y][i] = thread / block_size[0] % block_size[1];
        warp->specials[SPECIAL_TID_Z][i] = thread / block_size[0] / block_size[1];
        for (unsigned int axis = 0; axis < 3; axis++) {
            warp->specials[SPECIAL_NTID_X + axis][i] = block_size[axis];
            warp->specials[SPECIAL_NCTAID_X + axis][i] = grid[axis];
        }
        warp->specials[SPECIAL_LANEID][i] = i;
        warp->specials[SPECIAL_WARPID][i] = number;
        warp->specials[SPECIAL_NWARPID][i] = warp->block->warp_count;
        warp->specials[SPECIAL_LANEMASK_EQ][i] = bit;
        warp->specials[SPECIAL_LANEMASK_LT][i] = bit - 1;
        warp->specials[SPECIAL_LANEMASK_LE][i] = (bit - 1) | bit;
        warp->specials[SPECIAL_LANEMASK_GE][i] = ~(bit - 1);
        warp->specials[SPECIAL_LANEMASK_GT][i] = ~((bit - 1) | bit);
        warp->specials[SPECIAL_NSMID][i] = 1;
        warp->specials[SPECIAL_DYNAMIC_SHARED_BYTES][i] = warp->block->launch->dynamic_shared_bytes;
        warp->specials[SPECIAL_TOTAL_SHARED_BYTES][i] = warp->block->shared_bytes;
        warp->specials[SPECIAL_DYNAMIC_SHARED][i] = align16(warp->block->launch->module->shared_bytes);
    }
}

static bool make_warp(struct block *block, unsigned int number) {
    const struct ptx_launch *launch = block->launch;
    const struct ptx_module *module = launch->module;
    struct warp *warp = &block->warps[number];
    unsigned int threads = block->thread_count - number * LANES;
    bool calls = module->register_sum > 0 || module->frame_sum > 0;
    warp->block = block;
    warp->existing = threads >= LANES ? ALL_LANES : (1u << threads) - 1;
    warp->register_room = launch->kernel->register_count + module->register_sum + (calls ? RECURSION_REGISTERS : 0) + 1;
    size_t frames_bytes = launch->kernel->frame_bytes + module->frame_sum + (calls ? RECURSION_BYTES : 0) + 16;
    warp->memory_bytes = align(frames_bytes, module->frame_alignment);
    warp->registers = calloc(warp->register_room, sizeof *warp->registers);
    struct frame *frames = calloc(LANES * DEEPEST_CALL, sizeof *frames);
    unsigned char *memory = aligned_alloc(module->frame_alignment, LANES * warp->memory_bytes);
    if (memory != NULL) memset(memory, 0, LANES * warp->memory_bytes);
    for (unsigned int i = 0; i < LANES; i++) {
        warp->lanes[i].frames = frames + i * DEEPEST_CALL * (frames != NULL);
        warp->lanes[i].memory = memory + i * warp->memory_bytes * (memory != NULL);
    }
    if (warp->registers == NULL || frames == NULL || memory == NULL) return false;
    set_specials(warp, number, launch->block, launch->grid);
    return true;
}

static bool make_block(struct block *block) {
    const struct ptx_launch *launch = block->launch;
    block->thread_count = launch->block[0] * launch->block[1] * launch->block[2];
    block->warp_count = (block->thread_count + LANES - 1) / LANES;
    block->shared_bytes = align16(launch->module->shared_bytes) + launch->dynamic_shared_bytes;
    block->shared = aligned_alloc(256, (block->shared_bytes + 256 + 255) / 256 * 256);
    block->warps = calloc(block->warp_count, sizeof *block->warps);
    if (block->shared == NULL || block->warps == NULL) return false;
    for (unsigned int w = 0; w < block->warp_count; w++)
        if (!make_warp(block, w)) return false;
    return true;
}

/* Puts all threads of a block at the start. What it leaves in shared memory and registers of the block before is
 * unspecified on a GPU, and zero here, so that a run can be repeated. */
static void begin_block(struct block *block, const unsigned int place[3]) {
    const struct ptx_function *kernel = block->launch->kernel;
    block->alive_count = block->thread_count;
    memset(block->barriers, 0, sizeof block->barriers);
    memset(block->shared, 0, block->shared_bytes);
    for (unsigned int w = 0; w < block->warp_count; w++) {
        struct warp *warp = &block->warps[w];
        warp->alive = warp->existing;
        warp->passed_ns = 0;
        memset(warp->registers, 0, kernel->register_count * sizeof *warp->registers);
        for (unsigned int i = 0; i < LANES; i++) {
            struct lane *lane = &warp->lanes[i];
            lane->next = kernel->code;
            lane->depth = 0;
            lane->waiting = WAITING_NOT;
            lane->frames[0] = (struct frame){kernel, NULL, 0, 0};
            for (unsigned int axis = 0; axis < 3; axis++) warp->specials[SPECIAL_CTAID_X + axis][i] = place[axis];
        }
    }
}

static void run_block(struct block *block) {
    while (block->alive_count > 0 && block->result == PTX_DONE) {
        uint64_t before = block->clock;
        unsigned int alive = block->alive_count;
        for (unsigned int w = 0; w < block->warp_count && block->result == PTX_DONE; w++) {
            struct warp *warp = &block->warps[w];
            for (unsigned int i = 0; i < LANES; i++) warp->specials[SPECIAL_CLOCK][i] = block->clock;
            if (warp->alive != 0) warp_run(warp, STEPS_PER_TURN);
        }
        if (block->clock != before || block->alive_count != alive) continue;
        for (unsigned int w = 0; w < block->warp_count; w++)
            if (block->warps[w].alive != 0)
                warp_fail(&block->warps[w], block->warps[w].lanes[__builtin_ctz(block->warps[w].alive)].next,
                          PTX_FAILED, "all threads of a block wait here, or for each other, for ever");
    }
}

/* Kernels that stand for others, of which only the time matters, return at once. */
static bool is_empty(const struct ptx_function *kernel) {
    return kernel->code->guard < 0 &&
           (kernel->code->control == CONTROL_RETURN || kernel->code->control == CONTROL_EXIT);
}

static uint64_t longest_passed_ns(const struct block *block) {
    uint64_t longest = 0;
    for (unsigned int w = 0; w < block->warp_count; w++)
        if (block->warps[w].passed_ns > longest) longest = block->warps[w].passed_ns;
    return longest;
}

enum ptx_result ptx_run(const struct ptx_launch *launch, uint64_t *passed_ns, char message[PTX_MESSAGE_BYTES]) {
    *passed_ns = 0;
    if (is_empty(launch->kernel)) return PTX_DONE;
    struct block block = {.launch = launch, .message = message};
    if (!make_block(&block)) {
        snprintf(message, PTX_MESSAGE_BYTES, "kernel %.80s: no memory for its threads", ptx_name(launch->kernel));
        block.result = PTX_NO_MEMORY;
    }
    unsigned int place[3];
    for (place[2] = 0; place[2] < launch->grid[2] && block.result == PTX_DONE; place[2]++)
        for (place[1] = 0; place[1] < launch->grid[1] && block.result == PTX_DONE; place[1]++)
            for (place[0] = 0; place[0] < launch->grid[0] && block.result == PTX_DONE; place[0]++) {
                begin_block(&block, place);
                run_block(&block);
                uint64_t passed = longest_passed_ns(&block);
                if (passed > *passed_ns) *passed_ns = passed;
            }
    enum ptx_result result = block.result;
    free_block(&block);
    return result;
}

/* Barriers: threads of a block that wait for each other. */
#include "warp.h"

/* A barrier's variant: 0 sync, 1 arrive, 2 popc, 3 and, 4 or; from[0] its number, from[1] how many threads, from[2] a
 * vote. */
void barrier_arrive(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    unsigned int first = (unsigned int)__builtin_ctz(lanes);
    uint32_t number = (uint32_t)source_values(warp, instruction->from[0])[first];
    if (number >= BARRIERS) {
        warp_fail(warp, instruction, PTX_FAILED, "there is no barrier %u", number);
        return;
    }
    struct barrier *barrier = &warp->block->barriers[number];
    barrier->expected =
        instruction->from[1].kind == SOURCE_NONE ? 0 : (uint32_t)source_values(warp, instruction->from[1])[first];
    barrier->arrived += (uint32_t)__builtin_popcount(lanes);
    for (unsigned int i = 0; i < LANES; i++) {
        if (!(lanes >> i & 1)) continue;
        if (instruction->from[2].kind != SOURCE_NONE)
            barrier->votes +=
                (uint32_t)((source_values(warp, instruction->from[2])[i] & 1) != instruction->negated_predicate);
        if (instruction->variant == 1) {
            warp->lanes[i].next = instruction + 1;
            continue;
        }
        warp->lanes[i].next = instruction;
        warp->lanes[i].waiting = WAITING_BARRIER;
        warp->lanes[i].barrier = number;
    }
    barrier_check(warp->block, number);
}

static void release(struct warp *warp, unsigned int index, const struct barrier *barrier) {
    struct lane *lane = &warp->lanes[index];
    const struct instruction *instruction = lane->next;
    uint64_t all = barrier->votes == barrier->arrived, any = barrier->votes > 0;
    uint64_t answer = instruction->variant == 2 ? barrier->votes : instruction->variant == 3 ? all : any;
    if (instruction->to >= 0)
        warp->registers[lane->frames[lane->depth].registers + (uint32_t)instruction->to][index] = answer;
    lane->waiting = WAITING_NOT;
    lane->next = instruction + 1;
}

static bool waits_at(const struct warp *warp, unsigned int lane, uint32_t number) {
    return warp->alive >> lane & 1 && warp->lanes[lane].waiting == WAITING_BARRIER &&
           warp->lanes[lane].barrier == number;
}

static bool any_waits_at(const struct warp *warp, uint32_t number) {
    for (unsigned int i = 0; i < LANES; i++)
        if (waits_at(warp, i, number)) return true;
    return false;
}

/* For all that wait it is as late as for the last that came. */
static void meet_in_time(struct block *block, uint32_t number) {
    uint64_t latest = 0;
    for (unsigned int w = 0; w < block->warp_count; w++)
        if (any_waits_at(&block->warps[w], number) && block->warps[w].passed_ns > latest)
            latest = block->warps[w].passed_ns;
    for (unsigned int w = 0; w < block->warp_count && latest > 0; w++)
        if (any_waits_at(&block->warps[w], number)) block->warps[w].passed_ns = latest;
}

void barrier_check(struct block *block, uint32_t number) {
    struct barrier *barrier = &block->barriers[number];
    uint32_t expected =
        barrier->expected == 0 || barrier->expected > block->alive_count ? block->alive_count : barrier->expected;
    if (barrier->arrived < expected) return;
    meet_in_time(block, number);
    for (unsigned int w = 0; w < block->warp_count; w++)
        for (unsigned int i = 0; i < LANES; i++) {
            struct warp *warp = &block->warps[w];
            if (waits_at(warp, i, number)) release(warp, i, barrier);
        }
    *barrier = (struct barrier){0};
}

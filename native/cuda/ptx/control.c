/* What comes next: branches, calls, barriers and ends. */
#include <string.h>

#include "warp.h"

#define TAKE_TURNS_AFTER 1024 /* selections after which another place gets its turn: it may hold what all wait for */

/* Lanes that stand at the same place. */
struct group {
    uint32_t lanes;
    const struct instruction *next;
    const struct instruction *meets; /* where others of the same call wait, further on in the text; or NULL */
    bool alone;                      /* no other lane of the warp could go on */
};

static bool is_before(const struct lane *lane, const struct lane *other) {
    return lane->depth != other->depth ? lane->depth > other->depth : lane->next < other->next;
}

static uint32_t runnable_lanes(const struct warp *warp) {
    uint32_t runnable = 0;
    for (unsigned int i = 0; i < LANES; i++)
        if (warp->alive >> i & 1 && warp->lanes[i].waiting == WAITING_NOT) runnable |= 1u << i;
    return runnable;
}

static bool select_group(struct warp *warp, struct group *group) {
    uint32_t runnable = runnable_lanes(warp);
    if (runnable == 0) return false;
    bool other_turn = ++warp->selections % TAKE_TURNS_AFTER == 0;
    int chosen = -1;
    for (int i = 0; i < LANES; i++) {
        if (!(runnable >> i & 1)) continue;
        if (chosen < 0 || is_before(&warp->lanes[i], &warp->lanes[chosen]) != other_turn) chosen = i;
    }
    const struct lane *first = &warp->lanes[chosen];
    const struct frame *frame = &first->frames[first->depth];
    *group = (struct group){.next = first->next};
    for (unsigned int i = 0; i < LANES; i++) {
        const struct lane *lane = &warp->lanes[i];
        if (!(runnable >> i & 1)) continue;
        bool same_call = lane->depth == first->depth && lane->frames[lane->depth].registers == frame->registers;
        if (same_call && lane->next == first->next) group->lanes |= 1u << i;
        else if (same_call && lane->next > first->next && (group->meets == NULL || lane->next < group->meets))
            group->meets = lane->next;
    }
    group->alone = group->lanes == runnable;
    warp->function = frame->function;
    warp->base = warp->registers + frame->registers;
    return true;
}

static void set_next(struct warp *warp, uint32_t lanes, const struct instruction *next) {
    for (unsigned int i = 0; i < LANES; i++)
        if (lanes >> i & 1) warp->lanes[i].next = next;
}

static uint32_t guarded(const struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    if (instruction->guard < 0) return lanes;
    const uint64_t *predicate = warp->base[instruction->guard];
    uint32_t held = 0;
    for (unsigned int i = 0; i < LANES; i++) held |= (uint32_t)(predicate[i] & 1) << i;
    return lanes & (instruction->guard_negated ? ~held : held);
}

/* Whoever waits for lanes that end has to look again. */
static void end_lanes(struct warp *warp, uint32_t lanes) {
    warp->alive &= ~lanes;
    for (unsigned int i = 0; i < LANES; i++)
        if (warp->lanes[i].waiting == WAITING_WARP) warp->lanes[i].waiting = WAITING_NOT;
    warp->block->alive_count -= (unsigned int)__builtin_popcount(lanes);
    for (uint32_t i = 0; i < BARRIERS; i++)
        if (warp->block->barriers[i].arrived > 0) barrier_check(warp->block, i);
}

static void run_indexed_branch(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *index = source_values(warp, instruction->from[0]);
    for (unsigned int i = 0; i < LANES; i++) {
        if (!(lanes >> i & 1)) continue;
        if ((uint32_t)index[i] >= instruction->target_count) {
            warp_fail(warp, instruction, PTX_FAILED, "index %u is beyond its targets", (uint32_t)index[i]);
            return;
        }
        warp->lanes[i].next = warp->function->code + instruction->targets[(uint32_t)index[i]];
    }
}

static const struct ptx_function *called(struct warp *warp, const struct instruction *instruction, unsigned int lane) {
    if (instruction->call->function != NULL) return instruction->call->function;
    uintptr_t address = (uintptr_t)source_values(warp, instruction->from[0])[lane];
    for (const struct ptx_function *each = warp->block->launch->module->functions; each != NULL; each = each->next)
        if ((uintptr_t)each == address && each->is_defined && !each->is_kernel) return each;
    return NULL;
}

static void enter(struct warp *warp, const struct instruction *instruction, unsigned int index,
                  const struct ptx_function *function) {
    struct lane *lane = &warp->lanes[index];
    const struct frame *caller = &lane->frames[lane->depth];
    const struct call *call = instruction->call;
    struct frame frame = {function, instruction, caller->registers + caller->function->register_count,
                          caller->memory + caller->function->frame_bytes};
    if (lane->depth + 1 == DEEPEST_CALL || frame.registers + function->register_count > warp->register_room ||
        frame.memory + function->frame_bytes > warp->memory_bytes ||
        call->argument_count != function->parameter_count || call->result_count > function->result_count) {
        warp_fail(warp, instruction, PTX_FAILED, "the call of %.80s is too deep, or does not fit its parameters",
                  function->name);
        return;
    }
    for (uint32_t i = 0; i < call->argument_count; i++) {
        uint32_t bytes = call->arguments[i].bytes < function->parameters[i].bytes ? call->arguments[i].bytes
                                                                                  : function->parameters[i].bytes;
        memcpy(lane->memory + frame.memory + function->parameters[i].offset,
               lane->memory + caller->memory + call->arguments[i].offset, bytes);
    }
    lane->frames[++lane->depth] = frame;
    lane->next = function->code;
}

static void run_call(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    for (unsigned int i = 0; i < LANES && warp->block->result == PTX_DONE; i++) {
        if (!(lanes >> i & 1)) continue;
        const struct ptx_function *function = called(warp, instruction, i);
        if (function == NULL) warp_fail(warp, instruction, PTX_FAILED, "there is no function at that address");
        else if (!function->is_defined) {
            run_builtin(warp, instruction, function, 1u << i);
            warp->lanes[i].next = instruction + 1;
        } else enter(warp, instruction, i, function);
    }
}

static void run_return(struct warp *warp, uint32_t lanes) {
    uint32_t ended = 0;
    for (unsigned int i = 0; i < LANES; i++) {
        if (!(lanes >> i & 1)) continue;
        struct lane *lane = &warp->lanes[i];
        const struct frame *frame = &lane->frames[lane->depth];
        if (lane->depth == 0) {
            ended |= 1u << i;
            continue;
        }
        const struct frame *caller = frame - 1;
        for (uint32_t each = 0; each < frame->call->call->result_count; each++) {
            struct slot to = frame->call->call->results[each], from = frame->function->results[each];
            memcpy(lane->memory + caller->memory + to.offset, lane->memory + frame->memory + from.offset,
                   to.bytes < from.bytes ? to.bytes : from.bytes);
        }
        lane->next = frame->call + 1;
        lane->depth--;
    }
    if (ended != 0) end_lanes(warp, ended);
}

/* Lanes that work together wait for each other at the instruction itself. */
static void run_together(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    uint32_t present = lanes;
    for (unsigned int i = 0; i < LANES; i++)
        if (warp->alive >> i & 1 && warp->lanes[i].waiting == WAITING_WARP && warp->lanes[i].next == instruction)
            present |= 1u << i;
    uint32_t members = warp_instruction_members(warp, instruction, lanes) & warp->alive;
    if ((members & ~present) != 0) {
        for (unsigned int i = 0; i < LANES; i++)
            if (lanes >> i & 1) warp->lanes[i].waiting = WAITING_WARP;
        return;
    }
    run_warp_instruction(warp, instruction, present);
    for (unsigned int i = 0; i < LANES; i++)
        if (present >> i & 1) warp->lanes[i].waiting = WAITING_NOT;
    set_next(warp, present, instruction + 1);
}

/* Executes an instruction that decides what comes next, for lanes whose `next` is the instruction itself. */
static void run_control(struct warp *warp, const struct instruction *instruction, const struct group *group) {
    uint32_t active = guarded(warp, instruction, group->lanes);
    set_next(warp, group->lanes & ~active, instruction + 1);
    if (active == 0) return;
    switch (instruction->control) {
        case CONTROL_BRANCH: set_next(warp, active, warp->function->code + instruction->target); break;
        case CONTROL_BRANCH_INDEXED: run_indexed_branch(warp, instruction, active); break;
        case CONTROL_CALL: run_call(warp, instruction, active); break;
        case CONTROL_RETURN: run_return(warp, active); break;
        case CONTROL_EXIT: end_lanes(warp, active); break;
        case CONTROL_BARRIER: barrier_arrive(warp, instruction, active); break;
        case CONTROL_WARP: run_together(warp, instruction, active); break;
        case CONTROL_TRAP: warp_fail(warp, instruction, PTX_FAILED, "the kernel ended itself"); break;
        default: warp_fail(warp, instruction, PTX_UNSUPPORTED, "this instruction is not supported"); break;
    }
}

/* Runs plain instructions up to one that is not, or to a place where others wait. */
static const struct instruction *run_plain(struct warp *warp, const struct group *group, const struct instruction *next,
                                           uint64_t *budget) {
    while (next->control == CONTROL_PLAIN) {
        uint32_t active = guarded(warp, next, group->lanes);
        if (active != 0) next->run(warp, next, active);
        next++;
        if (*budget > 0) --*budget;
        if (next == group->meets || warp->block->result != PTX_DONE) break;
    }
    return next;
}

bool warp_run(struct warp *warp, uint64_t budget) {
    struct group group;
    while (budget > 0 && warp->block->result == PTX_DONE && select_group(warp, &group)) {
        const struct instruction *next = group.next;
        for (;;) {
            next = run_plain(warp, &group, next, &budget);
            if (budget > 0) budget--;
            warp->block->clock++;
            /* A branch that all lanes take needs no new selection, if nobody else is waiting for a turn. */
            if (next->control != CONTROL_BRANCH || !group.alone || budget == 0 || warp->block->result != PTX_DONE)
                break;
            uint32_t active = guarded(warp, next, group.lanes);
            if (active != 0 && active != group.lanes) break;
            next = active == 0 ? next + 1 : warp->function->code + next->target;
        }
        set_next(warp, group.lanes, next);
        if (warp->block->result == PTX_DONE && next != group.meets && next->control != CONTROL_PLAIN)
            run_control(warp, next, &group);
    }
    return warp->block->result == PTX_DONE;
}

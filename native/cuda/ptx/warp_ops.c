/* What the lanes of a warp compute together: shuffles, votes, matches and reductions. */
#include "operations.h"
#include "values.h"

/* In `from`: a shuffle's value, lane, clamp and members; a vote's predicate and members; of a match or a reduction the
 * value and the members; of a wait, or an election, only the members. */
static struct source members_source(const struct instruction *instruction) {
    if (instruction->variant >= TOGETHER_SHUFFLE_UP && instruction->variant <= TOGETHER_SHUFFLE_IDX)
        return instruction->from[3];
    if (instruction->variant == TOGETHER_SYNC || instruction->variant == TOGETHER_ELECT) return instruction->from[0];
    return instruction->from[1];
}

uint32_t warp_instruction_members(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    if (instruction->variant == TOGETHER_ACTIVE_MASK) return lanes;
    return (uint32_t)source_values(warp, members_source(instruction))[__builtin_ctz(lanes)];
}

static void shuffle(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *value = source_values(warp, instruction->from[0]), *by = source_values(warp, instruction->from[1]);
    const uint64_t *clamps = source_values(warp, instruction->from[2]);
    uint64_t before[LANES], *to = result_values(warp, instruction->to),
                            *found = result_values(warp, instruction->to_predicate);
    memcpy(before, value, sizeof before);
    for (int lane = 0; lane < LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        int segment = (int)(clamps[lane] >> 8 & 31), clamp = (int)(clamps[lane] & 31), distance = (int)(by[lane] & 31);
        int last = (lane & segment) | (clamp & ~segment), first = lane & segment, other = lane;
        bool inside = true;
        switch (instruction->variant) {
            case TOGETHER_SHUFFLE_UP:
                other = lane - distance;
                inside = other >= last;
                break;
            case TOGETHER_SHUFFLE_DOWN:
                other = lane + distance;
                inside = other <= last;
                break;
            case TOGETHER_SHUFFLE_BFLY:
                other = lane ^ distance;
                inside = other <= last;
                break;
            default:
                other = first | (distance & ~segment);
                inside = other <= last;
                break;
        }
        to[lane] = (uint32_t)before[inside ? other & 31 : lane];
        found[lane] = inside;
    }
}

static uint32_t votes_of(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *predicate = source_values(warp, instruction->from[0]);
    uint32_t votes = 0;
    for (unsigned int lane = 0; lane < LANES; lane++)
        if (lanes >> lane & 1 && (predicate[lane] & 1) != instruction->negated_predicate) votes |= 1u << lane;
    return votes;
}

static void vote(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    uint32_t votes = votes_of(warp, instruction, lanes);
    uint64_t answer = votes;
    if (instruction->variant == TOGETHER_VOTE_ALL) answer = votes == lanes;
    if (instruction->variant == TOGETHER_VOTE_ANY) answer = votes != 0;
    if (instruction->variant == TOGETHER_VOTE_UNI) answer = votes == 0 || votes == lanes;
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, to[lane] = answer);
}

static void match(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *values = source_values(warp, instruction->from[0]);
    uint64_t mask = type_bytes(instruction->type) == 8 ? UINT64_MAX : UINT32_MAX, before[LANES];
    memcpy(before, values, sizeof before);
    uint64_t *to = result_values(warp, instruction->to), *all = result_values(warp, instruction->to_predicate);
    for (unsigned int lane = 0; lane < LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        uint32_t same = 0;
        for (unsigned int other = 0; other < LANES; other++)
            if (lanes >> other & 1 && (before[other] & mask) == (before[lane] & mask)) same |= 1u << other;
        bool for_all = instruction->variant == TOGETHER_MATCH_ALL;
        to[lane] = for_all && same != lanes ? 0 : same;
        if (for_all) all[lane] = same == lanes;
    }
}

static uint32_t reduced(const struct instruction *instruction, uint32_t a, uint32_t b) {
    bool is_signed = type_is_signed(instruction->type), less = is_signed ? (int32_t)a < (int32_t)b : a < b;
    switch (instruction->variant) {
        case TOGETHER_REDUCE_ADD: return a + b;
        case TOGETHER_REDUCE_MIN: return less ? a : b;
        case TOGETHER_REDUCE_MAX: return less ? b : a;
        case TOGETHER_REDUCE_AND: return a & b;
        case TOGETHER_REDUCE_OR: return a | b;
        default: return a ^ b;
    }
}

static void reduce(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *values = source_values(warp, instruction->from[0]);
    unsigned int first = (unsigned int)__builtin_ctz(lanes);
    uint32_t result = (uint32_t)values[first];
    for (unsigned int lane = first + 1; lane < LANES; lane++)
        if (lanes >> lane & 1) result = reduced(instruction, result, (uint32_t)values[lane]);
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, to[lane] = result);
}

static void elect(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    unsigned int leader = (unsigned int)__builtin_ctz(lanes);
    uint64_t *to = result_values(warp, instruction->to), *is_leader = result_values(warp, instruction->to_predicate);
    FOR_LANES(lanes, {
        to[lane] = leader;
        is_leader[lane] = lane == leader;
    });
}

static void tell_lanes(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, to[lane] = lanes);
}

void run_warp_instruction(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    switch (instruction->variant) {
        case TOGETHER_SYNC: break;
        case TOGETHER_SHUFFLE_UP:
        case TOGETHER_SHUFFLE_DOWN:
        case TOGETHER_SHUFFLE_BFLY:
        case TOGETHER_SHUFFLE_IDX: shuffle(warp, instruction, lanes); break;
        case TOGETHER_VOTE_ALL:
        case TOGETHER_VOTE_ANY:
        case TOGETHER_VOTE_UNI:
        case TOGETHER_VOTE_BALLOT: vote(warp, instruction, lanes); break;
        case TOGETHER_MATCH_ANY:
        case TOGETHER_MATCH_ALL: match(warp, instruction, lanes); break;
        case TOGETHER_ACTIVE_MASK: tell_lanes(warp, instruction, lanes); break;
        case TOGETHER_ELECT: elect(warp, instruction, lanes); break;
        default: reduce(warp, instruction, lanes); break;
    }
}

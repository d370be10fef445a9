/* Branches, calls, barriers, and what the lanes of a warp do together. */
#include <string.h>

#include "decode.h"

/* bar.sync a;   bar.sync a, b;   barrier.cta.red.popc.u32 d, a, b, p; */
static bool decode_barrier(struct decoding *decoding) {
    struct instruction *instruction = decoding->instruction;
    take(decoding, "cta");
    take(decoding, "aligned");
    int kind = take_one_of(decoding, "sync arrive red");
    unsigned int at = 0;
    if (kind < 0) return false;
    instruction->variant = (unsigned int)kind;
    if (kind == 2) {
        int vote = take_one_of(decoding, "popc and or");
        enum type type = take_type(decoding);
        if (vote < 0 || (type != TYPE_U32 && type != TYPE_PRED)) return false;
        instruction->variant += (unsigned int)vote;
        set_result(decoding, at++);
    }
    set_source(decoding, 0, at++, TYPE_U32);
    if (decoding->operand_count > at + (kind == 2)) set_source(decoding, 1, at++, TYPE_U32);
    if (kind == 2) set_predicate_source(decoding, 2, at++);
    instruction->control = CONTROL_BARRIER;
    return decoding->operand_count == at && (kind != 1 || instruction->from[1].kind != SOURCE_NONE);
}

bool decode_control(struct decoding *decoding, const char *name) {
    struct instruction *instruction = decoding->instruction;
    static const struct {
        const char *name;
        enum control control;
    } simple[] = {{"bra", CONTROL_BRANCH}, {"brx", CONTROL_BRANCH_INDEXED}, {"call", CONTROL_CALL},
                  {"ret", CONTROL_RETURN}, {"exit", CONTROL_EXIT},          {"trap", CONTROL_TRAP},
                  {"brkpt", CONTROL_TRAP}};
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        if (strcmp(simple[i].name, name) != 0) continue;
        take(decoding, "uni");
        instruction->control = simple[i].control;
        return instruction->control != CONTROL_BRANCH_INDEXED || take(decoding, "idx");
    }
    bool is_barrier = strcmp(name, "bar") == 0 || strcmp(name, "barrier") == 0;
    if (!is_barrier) return false;
    if (!take(decoding, "warp")) return decode_barrier(decoding);
    instruction->control = CONTROL_WARP;
    instruction->variant = TOGETHER_SYNC;
    set_source(decoding, 0, 0, TYPE_B32);
    return take(decoding, "sync") && decoding->operand_count == 1;
}

/* shfl.sync.up.b32 d|p, a, b, c, members; */
static bool decode_shuffle(struct decoding *decoding) {
    struct instruction *instruction = decoding->instruction;
    int kind = take_one_of(decoding, "up down bfly idx");
    if (kind < 0 || !take(decoding, "sync") || take_type(decoding) != TYPE_B32 || decoding->operand_count != 5)
        return false;
    instruction->variant = TOGETHER_SHUFFLE_UP + (unsigned int)kind;
    set_result(decoding, 0);
    for (unsigned int i = 0; i < 4; i++) set_source(decoding, i, i + 1, TYPE_B32);
    return true;
}

/* vote.sync.ballot.b32 d, p, members; */
static bool decode_vote(struct decoding *decoding) {
    struct instruction *instruction = decoding->instruction;
    int kind = take_one_of(decoding, "all any uni ballot");
    enum type type = take_type(decoding);
    if (kind < 0 || type != (kind == 3 ? TYPE_B32 : TYPE_PRED) || !take(decoding, "sync") ||
        decoding->operand_count != 3)
        return false;
    instruction->variant = TOGETHER_VOTE_ALL + (unsigned int)kind;
    set_result(decoding, 0);
    set_predicate_source(decoding, 0, 1);
    set_source(decoding, 1, 2, TYPE_B32);
    return true;
}

/* match.any.sync.b32 d, a, members;   redux.sync.add.u32 d, a, members; */
static bool decode_value_together(struct decoding *decoding, const char *kinds, unsigned int first) {
    struct instruction *instruction = decoding->instruction;
    int kind = take_one_of(decoding, kinds);
    instruction->type = take_type(decoding);
    if (kind < 0 || !take(decoding, "sync") || type_bytes(instruction->type) < 4 || type_is_float(instruction->type) ||
        decoding->operand_count != 3)
        return false;
    instruction->variant = first + (unsigned int)kind;
    set_result(decoding, 0);
    set_source(decoding, 0, 1, instruction->type);
    set_source(decoding, 1, 2, TYPE_B32);
    return first == TOGETHER_MATCH_ANY || type_bytes(instruction->type) == 4;
}

bool decode_together(struct decoding *decoding, const char *name) {
    struct instruction *instruction = decoding->instruction;
    instruction->control = CONTROL_WARP;
    if (strcmp(name, "shfl") == 0) return decode_shuffle(decoding);
    if (strcmp(name, "vote") == 0) return decode_vote(decoding);
    if (strcmp(name, "match") == 0) return decode_value_together(decoding, "any all", TOGETHER_MATCH_ANY);
    if (strcmp(name, "redux") == 0)
        return decode_value_together(decoding, "add min max and or xor", TOGETHER_REDUCE_ADD);
    if (strcmp(name, "activemask") == 0) {
        instruction->variant = TOGETHER_ACTIVE_MASK;
        set_result(decoding, 0);
        return take_type(decoding) == TYPE_B32 && decoding->operand_count == 1;
    }
    if (strcmp(name, "elect") == 0) {
        instruction->variant = TOGETHER_ELECT;
        set_result(decoding, 0);
        set_source(decoding, 0, 1, TYPE_B32);
        return take(decoding, "sync") && decoding->operand_count == 2;
    }
    return false;
}

/* Comparisons, choices, and operations on predicates. */
#include <string.h>

#include "decode.h"

static const struct {
    const char *word;
    enum comparison comparison;
    bool unordered; /* holds if one is a NaN */
} COMPARISONS[] = {
    {"eq", COMPARE_EQ, false},   {"ne", COMPARE_NE, false},   {"lt", COMPARE_LT, false}, {"le", COMPARE_LE, false},
    {"gt", COMPARE_GT, false},   {"ge", COMPARE_GE, false},   {"lo", COMPARE_LT, false}, {"ls", COMPARE_LE, false},
    {"hi", COMPARE_GT, false},   {"hs", COMPARE_GE, false},   {"equ", COMPARE_EQ, true}, {"neu", COMPARE_NE, true},
    {"ltu", COMPARE_LT, true},   {"leu", COMPARE_LE, true},   {"gtu", COMPARE_GT, true}, {"geu", COMPARE_GE, true},
    {"num", COMPARE_NUM, false}, {"nan", COMPARE_NAN, false},
};

static bool take_comparison(struct decoding *decoding) {
    for (size_t i = 0; i < sizeof COMPARISONS / sizeof *COMPARISONS; i++) {
        if (!take(decoding, COMPARISONS[i].word)) continue;
        decoding->instruction->comparison = COMPARISONS[i].comparison;
        decoding->instruction->unordered = COMPARISONS[i].unordered;
        return true;
    }
    return false;
}

/* setp.lt.s32 p|q, a, b;   setp.lt.and.s32 p, a, b, c;   set.lt.u32.s32 d, a, b; */
static bool decode_compare(struct decoding *decoding, bool to_predicate) {
    struct instruction *instruction = decoding->instruction;
    if (!take_comparison(decoding)) return false;
    instruction->combination = (enum combination)(take_one_of(decoding, "and or xor") + 1);
    instruction->flushes = take(decoding, "ftz");
    instruction->type = to_predicate ? TYPE_PRED : take_type(decoding);
    instruction->from_type = take_type(decoding);
    instruction->run = find_compare(instruction->from_type);
    bool halves = instruction->type == TYPE_F16 && instruction->from_type == TYPE_F16;
    bool writes = to_predicate || halves || instruction->type == TYPE_U32 || instruction->type == TYPE_S32 ||
                  instruction->type == TYPE_F32;
    if (instruction->run == NULL || !writes) return false;
    if (decoding->operand_count != (instruction->combination == COMBINE_NONE ? 3u : 4u))
        parse_fail(decoding->parser, "%s has a wrong number of operands", instruction->name);
    set_result(decoding, 0);
    set_source(decoding, 0, 1, instruction->from_type);
    set_source(decoding, 1, 2, instruction->from_type);
    if (instruction->combination != COMBINE_NONE) set_predicate_source(decoding, 2, 3);
    return true;
}

static bool decode_choice(struct decoding *decoding, plain_run run, bool by_predicate) {
    struct instruction *instruction = decoding->instruction;
    instruction->flushes = take(decoding, "ftz");
    instruction->type = take_type(decoding);
    if (!by_predicate) instruction->from_type = take_type(decoding);
    if (instruction->type == TYPE_NONE || type_bytes(instruction->type) < 2) return false;
    if (!by_predicate && instruction->from_type != TYPE_S32 && instruction->from_type != TYPE_F32) return false;
    instruction->run = run;
    set_result(decoding, 0);
    set_source(decoding, 0, 1, instruction->type);
    set_source(decoding, 1, 2, instruction->type);
    if (by_predicate) set_predicate_source(decoding, 2, 3);
    else set_source(decoding, 2, 3, instruction->from_type);
    return decoding->operand_count == 4;
}

static bool decode_test(struct decoding *decoding) {
    struct instruction *instruction = decoding->instruction;
    int property = take_one_of(decoding, "finite infinite number notanumber normal subnormal");
    instruction->from_type = take_type(decoding);
    if (property < 0 || (instruction->from_type != TYPE_F32 && instruction->from_type != TYPE_F64)) return false;
    instruction->variant = (unsigned int)property;
    instruction->run = find_testp();
    set_result(decoding, 0);
    set_source(decoding, 0, 1, instruction->from_type);
    return decoding->operand_count == 2;
}

static bool decode_on_predicates(struct decoding *decoding, const char *name) {
    struct instruction *instruction = decoding->instruction;
    if (take_type(decoding) != TYPE_PRED) return false;
    instruction->run = find_predicate_operation(name);
    if (instruction->run == NULL) return false;
    set_result(decoding, 0);
    for (unsigned int i = 1; i < decoding->operand_count && i <= 2; i++) set_source(decoding, i - 1, i, TYPE_PRED);
    bool one = strcmp(name, "not") == 0 || strcmp(name, "mov") == 0;
    return decoding->operand_count == (one ? 2u : 3u);
}

bool decode_comparison(struct decoding *decoding, const char *name) {
    if (strcmp(name, "setp") == 0) return decode_compare(decoding, true);
    if (strcmp(name, "set") == 0) return decode_compare(decoding, false);
    if (strcmp(name, "selp") == 0) return decode_choice(decoding, find_select(), true);
    if (strcmp(name, "slct") == 0) return decode_choice(decoding, find_slct(), false);
    if (strcmp(name, "testp") == 0) return decode_test(decoding);
    return decode_on_predicates(decoding, name);
}

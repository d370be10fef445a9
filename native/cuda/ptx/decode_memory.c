/* Moves, conversions, loads, stores and atomics. */
#include <string.h>

#include "decode.h"

/* Hints about caches, and about what other threads see and when: here everybody sees everything at once. */
static void take_hints(struct decoding *decoding) {
    while (take_one_of(decoding,
                       "ca cg cs lu cv wb wt nc volatile relaxed acquire release acq_rel weak cta cluster gpu sys "
                       "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::64B "
                       "L2::128B L2::256B") >= 0)
        continue;
}

static bool decode_move(struct decoding *decoding) {
    struct instruction *instruction = decoding->instruction;
    const struct operand *to = operand_at(decoding, 0), *from = operand_at(decoding, 1);
    instruction->type = take_type(decoding);
    if (decoding->operand_count != 2 || type_bytes(instruction->type) < 2 || instruction->type == TYPE_B128)
        return false;
    unsigned int elements = to->kind == OPERAND_VECTOR     ? to->element_count
                            : from->kind == OPERAND_VECTOR ? from->element_count
                                                           : 0;
    if (elements > 0 && (8 * type_bytes(instruction->type) % elements != 0 || elements < 2 || elements > 4))
        return false;
    if (to->kind == OPERAND_VECTOR) {
        instruction->run = find_unpack();
        set_elements(decoding, 0, true);
        set_source(decoding, 0, 1, instruction->type);
        return true;
    }
    set_result(decoding, 0);
    if (from->kind == OPERAND_VECTOR) {
        instruction->run = find_pack();
        set_elements(decoding, 1, false);
        return true;
    }
    const struct name *name = from->kind == OPERAND_NAME ? find_name(decoding->parser, from->text, from->length) : NULL;
    if (name != NULL && name->kind == NAME_FRAME) {
        instruction->run = find_local_address();
        instruction->offset = (int64_t)name->base + from->offset;
        return true;
    }
    set_source(decoding, 0, 1, instruction->type);
    bool timer = instruction->from[0].kind == SOURCE_SPECIAL &&
                 (instruction->from[0].index == SPECIAL_TIMER || instruction->from[0].index == SPECIAL_TIMER_HIGH);
    instruction->run = timer ? find_read_timer() : find_move();
    return true;
}

static bool decode_convert(struct decoding *decoding) {
    struct instruction *instruction = decoding->instruction;
    int whole = take_one_of(decoding, "rni rzi rmi rpi");
    instruction->variant = whole >= 0;
    if (whole >= 0) instruction->rounding = (enum rounding)whole;
    else take_rounding(decoding);
    instruction->flushes = take(decoding, "ftz");
    instruction->saturates = take(decoding, "sat");
    instruction->relu = take(decoding, "relu");
    instruction->type = take_type(decoding);
    instruction->from_type = take_type(decoding);
    set_result(decoding, 0);
    set_source(decoding, 0, 1, instruction->from_type);
    if (decoding->operand_count == 3 && instruction->from_type == TYPE_F32) {
        instruction->run = find_convert_pair(instruction->type);
        set_source(decoding, 1, 2, TYPE_F32);
        return instruction->run != NULL;
    }
    instruction->run = find_convert(instruction->type, instruction->from_type);
    return instruction->run != NULL && decoding->operand_count == 2;
}

static bool decode_convert_address(struct decoding *decoding) {
    struct instruction *instruction = decoding->instruction;
    bool to_space = take(decoding, "to");
    instruction->space = take_space(decoding);
    instruction->type = take_type(decoding);
    if (instruction->space == SPACE_GENERIC || type_bytes(instruction->type) < 4) return false;
    if (instruction->space == SPACE_PARAM && !decoding->parser->function->is_kernel) instruction->space = SPACE_LOCAL;
    instruction->run = find_convert_address(to_space);
    set_result(decoding, 0);
    const struct operand *from = operand_at(decoding, 1);
    const struct name *name = from->kind == OPERAND_NAME ? find_name(decoding->parser, from->text, from->length) : NULL;
    if (name != NULL && name->kind == NAME_FRAME) return false;
    set_source(decoding, 0, 1, instruction->type);
    return decoding->operand_count == 2;
}

static bool decode_is_space(struct decoding *decoding) {
    struct instruction *instruction = decoding->instruction;
    instruction->space = take_space(decoding);
    if (instruction->space == SPACE_GENERIC || instruction->space == SPACE_CONST) return false;
    instruction->run = find_is_space();
    set_result(decoding, 0);
    set_source(decoding, 0, 1, TYPE_U64);
    return decoding->operand_count == 2;
}

static bool take_vector(struct decoding *decoding, unsigned int operand) {
    static const unsigned int counts[] = {2, 4, 8};
    int which = take_one_of(decoding, "v2 v4 v8");
    if (which < 0) return operand_at(decoding, operand)->kind != OPERAND_VECTOR;
    return operand_at(decoding, operand)->kind == OPERAND_VECTOR &&
           operand_at(decoding, operand)->element_count == counts[which];
}

/* ld.global.v2.f32 {a, b}, [address];   st.shared.u32 [address], a; */
static bool decode_access(struct decoding *decoding, bool is_load) {
    struct instruction *instruction = decoding->instruction;
    unsigned int address = is_load ? 1 : 0, value = is_load ? 0 : 1;
    instruction->space = take_space(decoding);
    take_hints(decoding);
    bool sound = take_vector(decoding, value);
    instruction->type = take_type(decoding);
    if (!sound || type_bytes(instruction->type) == 0 || instruction->type == TYPE_PRED ||
        instruction->type == TYPE_B128)
        return false;
    set_address(decoding, address);
    instruction->run = is_load ? find_load() : find_store();
    if (operand_at(decoding, value)->kind == OPERAND_VECTOR) set_elements(decoding, value, is_load);
    else if (is_load) set_result(decoding, 0);
    else set_source(decoding, 1, 1, instruction->type);
    return decoding->operand_count == 2;
}

/* atom.global.add.u32 d, [address], b, c;   red without d. */
static bool decode_atomic(struct decoding *decoding, bool has_result) {
    static const char *const names[] = {"exch", "cas", "and", "or", "xor", "add", "min", "max", "inc", "dec"};
    struct instruction *instruction = decoding->instruction;
    unsigned int address = has_result ? 1 : 0;
    instruction->space = take_space(decoding);
    take_hints(decoding);
    take(decoding, "noftz");
    int which = take_one_of(decoding, "exch cas and or xor add min max inc dec");
    instruction->type = take_type(decoding);
    if (which < 0) return false;
    instruction->run = find_atomic(names[which], instruction->type);
    bool swaps = strcmp(names[which], "cas") == 0;
    if (instruction->run == NULL || decoding->operand_count != address + (swaps ? 3u : 2u)) return false;
    if (has_result) set_result(decoding, 0);
    set_address(decoding, address);
    set_source(decoding, 1, address + 1, instruction->type);
    if (swaps) set_source(decoding, 2, address + 2, instruction->type);
    return true;
}

/* nanosleep.u32 t; */
static bool decode_nap(struct decoding *decoding) {
    if (take_type(decoding) != TYPE_U32 || decoding->operand_count != 1) return false;
    decoding->instruction->run = find_nap();
    set_source(decoding, 0, 0, TYPE_U32);
    return true;
}

/* What tells the hardware something, and changes no result. */
static bool decode_hint(struct decoding *decoding, const char *name) {
    static const char *const names[] = {"membar",  "fence",          "prefetch", "prefetchu",
                                        "pmevent", "griddepcontrol", "discard",  "applypriority"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) != 0) continue;
        while (take_one_of(decoding,
                           "cta gl sys gpu cluster sc acq_rel acquire release global local L1 L2 L2::evict_last "
                           "L2::evict_normal tensormap "
                           "u32 wait launch_dependents proxy alias async L2::128B") >= 0)
            continue;
        decoding->instruction->run = find_nothing();
        return true;
    }
    return false;
}

bool decode_memory(struct decoding *decoding, const char *name) {
    if (strcmp(name, "mov") == 0) return decode_move(decoding);
    if (strcmp(name, "cvt") == 0) return decode_convert(decoding);
    if (strcmp(name, "cvta") == 0) return decode_convert_address(decoding);
    if (strcmp(name, "isspacep") == 0) return decode_is_space(decoding);
    if (strcmp(name, "ld") == 0 || strcmp(name, "ldu") == 0) return decode_access(decoding, true);
    if (strcmp(name, "st") == 0) return decode_access(decoding, false);
    if (strcmp(name, "atom") == 0) return decode_atomic(decoding, true);
    if (strcmp(name, "red") == 0) return decode_atomic(decoding, false);
    if (strcmp(name, "nanosleep") == 0) return decode_nap(decoding);
    return decode_hint(decoding, name);
}

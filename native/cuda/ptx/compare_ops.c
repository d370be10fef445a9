/* Comparisons, choices, and operations on predicates. */
#include <stddef.h>

#include "operations.h"
#include "values.h"

static bool whole_compares(enum comparison comparison, int order) {
    switch (comparison) {
        case COMPARE_EQ: return order == 0;
        case COMPARE_NE: return order != 0;
        case COMPARE_LT: return order < 0;
        case COMPARE_LE: return order <= 0;
        case COMPARE_GT: return order > 0;
        case COMPARE_GE: return order >= 0;
        case COMPARE_NUM: return true;
        default: return false;
    }
}

static bool floats_compare(const struct instruction *instruction, double a, double b) {
    if (isnan(a) || isnan(b))
        return instruction->comparison == COMPARE_NAN ||
               (instruction->unordered && instruction->comparison != COMPARE_NUM);
    return whole_compares(instruction->comparison, a < b ? -1 : a > b);
}

static bool compares(const struct instruction *instruction, uint64_t a, uint64_t b) {
    enum type type = instruction->from_type;
    if (type_is_float(type))
        return floats_compare(instruction, float_value(a, type, instruction->flushes),
                              float_value(b, type, instruction->flushes));
    unsigned int unused = 64 - 8 * type_bytes(type);
    a <<= unused; /* the order of what remains is that of the numbers */
    b <<= unused;
    bool less = type_is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
    return whole_compares(instruction->comparison, a == b ? 0 : less ? -1 : 1);
}

static bool combine(enum combination combination, bool a, bool b) {
    switch (combination) {
        case COMBINE_AND: return a && b;
        case COMBINE_OR: return a || b;
        case COMBINE_XOR: return a != b;
        default: return a;
    }
}

/* What stands for true: 1 as a predicate or a float, all bits of a whole number. */
static uint64_t truth(enum type type) {
    switch (type) {
        case TYPE_PRED: return 1;
        case TYPE_F32: return 0x3f800000u;
        case TYPE_F16: return 0x3c00u;
        default: return 0xffffffffu;
    }
}

/* setp and set: the second result is that of the opposite comparison. */
static void compare(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *a = source_values(warp, instruction->from[0]), *b = source_values(warp, instruction->from[1]);
    const uint64_t *c = instruction->from[2].kind == SOURCE_NONE ? NULL : source_values(warp, instruction->from[2]);
    uint64_t *to = result_values(warp, instruction->to),
             *opposite = instruction->to_predicate >= 0 ? warp->base[instruction->to_predicate] : NULL;
    uint64_t yes = truth(instruction->type);
    FOR_LANES(lanes, {
        bool held = compares(instruction, a[lane], b[lane]);
        bool with = c != NULL && (c[lane] & 1) != instruction->negated_predicate;
        uint64_t second = combine(instruction->combination, !held, with);
        to[lane] = combine(instruction->combination, held, with) ? yes : 0;
        if (opposite != NULL) opposite[lane] = second;
    });
}

plain_run find_compare(enum type type) {
    bool known = type != TYPE_F16X2 && type != TYPE_BF16X2 && type != TYPE_PRED && type_bytes(type) >= 2 &&
                 type_bytes(type) <= 8;
    return known ? compare : NULL;
}

static void choose(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *a = source_values(warp, instruction->from[0]), *b = source_values(warp, instruction->from[1]);
    const uint64_t *predicate = source_values(warp, instruction->from[2]);
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, to[lane] = (predicate[lane] & 1) != instruction->negated_predicate ? a[lane] : b[lane]);
}

plain_run find_select(void) { return choose; }

/* slct: the first operand if the third is not negative. */
static void choose_by_sign(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *a = source_values(warp, instruction->from[0]), *b = source_values(warp, instruction->from[1]);
    const uint64_t *c = source_values(warp, instruction->from[2]);
    uint64_t *to = result_values(warp, instruction->to);
    bool is_float = instruction->from_type == TYPE_F32;
    FOR_LANES(lanes, {
        bool first = is_float ? flush_f32(get_f32(c[lane]), instruction->flushes) >= 0 : get_s32(c[lane]) >= 0;
        to[lane] = first ? a[lane] : b[lane];
    });
}

plain_run find_slct(void) { return choose_by_sign; }

enum { TEST_FINITE, TEST_INFINITE, TEST_NUMBER, TEST_NOT_A_NUMBER, TEST_NORMAL, TEST_SUBNORMAL };

static void test_property(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *a = source_values(warp, instruction->from[0]);
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, {
        double value = instruction->from_type == TYPE_F64 ? get_f64(a[lane]) : get_f32(a[lane]);
        double least = instruction->from_type == TYPE_F64 ? 0x1p-1022 : 0x1p-126;
        bool held = false;
        switch (instruction->variant) {
            case TEST_FINITE: held = isfinite(value); break;
            case TEST_INFINITE: held = isinf(value); break;
            case TEST_NUMBER: held = !isnan(value); break;
            case TEST_NOT_A_NUMBER: held = isnan(value); break;
            case TEST_NORMAL: held = isfinite(value) && fabs(value) >= least; break;
            default: held = value != 0 && fabs(value) < least; break;
        }
        to[lane] = held;
    });
}

plain_run find_testp(void) { return test_property; }

#define ON_PREDICATES(name, expression)                                                                               \
    static void name(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {                      \
        const uint64_t *a = source_values(warp, instruction->from[0]);                                                \
        const uint64_t *b = instruction->from[1].kind == SOURCE_NONE ? a : source_values(warp, instruction->from[1]); \
        uint64_t *to = result_values(warp, instruction->to);                                                          \
        FOR_LANES(lanes, to[lane] = (expression) & 1);                                                                \
        (void)b;                                                                                                      \
    }
ON_PREDICATES(and_of_predicates, a[lane] & b[lane])
ON_PREDICATES(or_of_predicates, a[lane] | b[lane])
ON_PREDICATES(xor_of_predicates, a[lane] ^ b[lane])
ON_PREDICATES(not_of_predicate, ~a[lane])
ON_PREDICATES(move_of_predicate, a[lane])

plain_run find_predicate_operation(const char *name) {
    static const struct {
        const char *name;
        plain_run run;
    } rows[] = {{"and", and_of_predicates},
                {"or", or_of_predicates},
                {"xor", xor_of_predicates},
                {"not", not_of_predicate},
                {"mov", move_of_predicate}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].run;
    return NULL;
}

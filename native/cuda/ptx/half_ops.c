/* Arithmetic on floats of 16 bits, one or two to a register: in f64, where it is exact or rounded to odd, and rounded
 * once. */
#include <math.h>
#include <stddef.h>

#include "operations.h"
#include "values.h"

enum { HALF_ADD, HALF_SUB, HALF_MUL, HALF_FMA, HALF_NEG, HALF_ABS, HALF_MIN, HALF_MAX, HALF_EX2, HALF_TANH };

static double computed(int operation, double a, double b, double c, bool hands_on) {
    switch (operation) {
        case HALF_ADD: return sum_to_odd(a, b);
        case HALF_SUB: return sum_to_odd(a, -b);
        case HALF_MUL: return a * b;
        case HALF_FMA: return fused_to_odd(a, b, c);
        case HALF_EX2: return exp2(a);
        case HALF_TANH: return tanh(a);
        default: break;
    }
    if (isnan(a) || isnan(b)) return hands_on || (isnan(a) && isnan(b)) ? NAN : isnan(a) ? b : a;
    bool a_is_less = a < b || (a == b && signbit(a));
    return (operation == HALF_MIN) == a_is_less ? a : b;
}

static uint16_t one(int operation, uint16_t a, uint16_t b, uint16_t c, bool brain,
                    const struct instruction *instruction) {
    if (operation == HALF_NEG) return a ^ 0x8000;
    if (operation == HALF_ABS) return a & 0x7fff;
    double x = brain ? bfloat_to_double(a) : half_to_double(a), y = brain ? bfloat_to_double(b) : half_to_double(b);
    double z = brain ? bfloat_to_double(c) : half_to_double(c);
    if (instruction->flushes) {
        if (fabs(x) < 0x1p-14) x = copysign(0, x);
        if (fabs(y) < 0x1p-14) y = copysign(0, y);
        if (fabs(z) < 0x1p-14) z = copysign(0, z);
    }
    double result = computed(operation, x, y, z, instruction->variant & 1);
    if (instruction->saturates) result = result > 1 ? 1 : result > 0 ? result : 0;
    if (instruction->relu && (isnan(result) || result < 0)) result = isnan(result) ? NAN : 0;
    uint16_t bits = brain ? bfloat_from_double(result) : half_from_double(result);
    return instruction->flushes && (bits & 0x7c00) == 0 ? bits & 0x8000 : bits;
}

#define HALVES(name, operation)                                                                                       \
    static void name(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {                      \
        bool pair = instruction->type == TYPE_F16X2 || instruction->type == TYPE_BF16X2;                              \
        bool brain = instruction->type == TYPE_BF16 || instruction->type == TYPE_BF16X2;                              \
        const uint64_t *a = source_values(warp, instruction->from[0]);                                                \
        const uint64_t *b = instruction->from[1].kind == SOURCE_NONE ? a : source_values(warp, instruction->from[1]); \
        const uint64_t *c = instruction->from[2].kind == SOURCE_NONE ? a : source_values(warp, instruction->from[2]); \
        uint64_t *to = result_values(warp, instruction->to);                                                          \
        FOR_LANES(lanes, {                                                                                            \
            uint32_t result =                                                                                         \
                one(operation, (uint16_t)a[lane], (uint16_t)b[lane], (uint16_t)c[lane], brain, instruction);          \
            if (pair) {                                                                                               \
                uint16_t upper = one(operation, (uint16_t)(a[lane] >> 16), (uint16_t)(b[lane] >> 16),                 \
                                     (uint16_t)(c[lane] >> 16), brain, instruction);                                  \
                result |= (uint32_t)upper << 16;                                                                      \
            }                                                                                                         \
            to[lane] = result;                                                                                        \
        });                                                                                                           \
    }
HALVES(add, HALF_ADD)
HALVES(sub, HALF_SUB)
HALVES(mul, HALF_MUL)
HALVES(fma_of_halves, HALF_FMA)
HALVES(neg, HALF_NEG)
HALVES(absolute, HALF_ABS)
HALVES(min, HALF_MIN)
HALVES(max, HALF_MAX)
HALVES(ex2, HALF_EX2)
HALVES(tanh_of_halves, HALF_TANH)

#define ROWS(T)                                                                                                   \
    {"add", T, 2, add}, {"sub", T, 2, sub}, {"mul", T, 2, mul}, {"fma", T, 3, fma_of_halves}, {"neg", T, 1, neg}, \
        {"abs", T, 1, absolute}, {"min", T, 2, min}, {"max", T, 2, max}, {"ex2", T, 1, ex2}, {                    \
        "tanh", T, 1, tanh_of_halves                                                                              \
    }

const struct operation_row HALF_OPERATIONS[] = {
    ROWS(TYPE_F16), ROWS(TYPE_F16X2), ROWS(TYPE_BF16), ROWS(TYPE_BF16X2), {NULL, TYPE_NONE, 0, NULL},
};

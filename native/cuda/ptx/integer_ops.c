/* Arithmetic on whole numbers. Signed ones wrap, as their bits do. */
#include <stddef.h>

#include "operations.h"
#include "values.h"

#define UNSIGNED_OF_s16 u16
#define UNSIGNED_OF_s32 u32
#define UNSIGNED_OF_s64 u64
#define UNSIGNED_OF_u16 u16
#define UNSIGNED_OF_u32 u32
#define UNSIGNED_OF_u64 u64
#define UNSIGNED(type) UNSIGNED_OF_##type

/* Sums and products of the unsigned numbers with the same bits; those of 16 bits would become signed in between. */
#define WRAP(type, x, operator, y) ((type)(UNSIGNED(type))((u64)(UNSIGNED(type))(x)operator(u64)(UNSIGNED(type))(y)))

static s32 saturated(s64 value) { return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (s32)value; }

/* Division by zero gives all ones, and a remainder the dividend, as on GPUs; the one quotient that is too large wraps.
 */
#define DIVIDE(type)                                                                                         \
    BINARY(div, type, b == 0 ? (type) - 1 : (type) - 1 < 1 && b == (type) - 1 ? WRAP(type, 0, -, a) : a / b) \
    BINARY(rem, type, b == 0 ? a : (type) - 1 < 1 && b == (type) - 1 ? 0 : a % b)

#define COMMON(type)                                                                        \
    BINARY(add, type, WRAP(type, a, +, b))                                                  \
    BINARY(sub, type, WRAP(type, a, -, b))                                                  \
    BINARY(mul_lo, type, WRAP(type, a, *, b))                                               \
    TERNARY(mad_lo, type, WRAP(type, WRAP(type, a, *, b), +, c))                            \
    BINARY(min, type, a < b ? a : b)                                                        \
    BINARY(max, type, a > b ? a : b)                                                        \
    TERNARY(sad, type, WRAP(type, c, +, a < b ? WRAP(type, b, -, a) : WRAP(type, a, -, b))) \
    DIVIDE(type)

COMMON(u16)
COMMON(u32)
COMMON(u64)
COMMON(s16)
COMMON(s32)
COMMON(s64)

#define SIGNED(type)                      \
    UNARY(neg, type, WRAP(type, 0, -, a)) \
    UNARY(abs, type, a < 0 ? WRAP(type, 0, -, a) : a)
SIGNED(s16)
SIGNED(s32)
SIGNED(s64)

BINARY(add_sat, s32, saturated((s64)a + b))
BINARY(sub_sat, s32, saturated((s64)a - b))

/* Upper halves of products. */
#define HIGH(type, wide, bits)                                \
    BINARY(mul_hi, type, (type)(((wide)a * (wide)b) >> bits)) \
    TERNARY(mad_hi, type, WRAP(type, (type)(((wide)a * (wide)b) >> bits), +, c))
HIGH(u16, u32, 16)
HIGH(s16, s32, 16)
HIGH(u32, u64, 32)
HIGH(s32, s64, 32)
HIGH(u64, unsigned __int128, 64)
HIGH(s64, __int128, 64)

static s32 high_saturated(s32 a, s32 b, s32 c) { return saturated((s64)(s32)(((s64)a * b) >> 32) + c); }
TERNARY(mad_hi_sat, s32, high_saturated(a, b, c))

/* Products of full width: the result, and what is added, have twice the bits. */
#define WIDE(type, wide)                                                                                          \
    static void mul_wide_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {       \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                                       \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                                       \
        uint64_t *to = result_values(warp, instruction->to);                                                      \
        FOR_LANES(lanes, to[lane] = put_##wide((wide)get_##type(from_a[lane]) * (wide)get_##type(from_b[lane]))); \
    }                                                                                                             \
    static void mad_wide_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {       \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                                       \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                                       \
        const uint64_t *from_c = source_values(warp, instruction->from[2]);                                       \
        uint64_t *to = result_values(warp, instruction->to);                                                      \
        FOR_LANES(lanes, {                                                                                        \
            wide product = (wide)get_##type(from_a[lane]) * (wide)get_##type(from_b[lane]);                       \
            to[lane] = put_##wide(WRAP(wide, product, +, get_##wide(from_c[lane])));                              \
        });                                                                                                       \
    }
WIDE(u16, u32)
WIDE(s16, s32)
WIDE(u32, u64)
WIDE(s32, s64)

/* Products of 24 bits. */
static u32 low24(u32 a) { return a & 0xffffff; }
static s32 signed24(s32 a) { return (s32)((u32)a << 8) >> 8; }
BINARY(mul24_lo, u32, low24(a) * low24(b))
BINARY(mul24_lo, s32, (u32)((s64)signed24(a) * signed24(b)))
BINARY(mul24_hi, u32, (u32)(((u64)low24(a) * low24(b)) >> 16))
BINARY(mul24_hi, s32, (s32)(((s64)signed24(a) * signed24(b)) >> 16))
TERNARY(mad24_lo, u32, low24(a) * low24(b) + c)
TERNARY(mad24_lo, s32, WRAP(s32, (u32)((s64)signed24(a) * signed24(b)), +, c))

/* Chains of sums over more bits than a register has: each leaves a carry for the next. For differences it is a borrow.
 */
#define CHAINED(name, type, wide, sign)                                                                   \
    static void name##_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) { \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                               \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                               \
        uint64_t *to = result_values(warp, instruction->to);                                              \
        FOR_LANES(lanes, {                                                                                \
            wide carry = instruction->carries_in ? warp->carry[lane] : 0;                                 \
            wide sum = (wide)(type)from_a[lane] sign(wide)(type) from_b[lane] sign carry;                 \
            to[lane] = (type)sum;                                                                         \
            if (instruction->carries_out) warp->carry[lane] = (sum >> (8 * sizeof(type)) & 1) != 0;       \
        });                                                                                               \
    }
CHAINED(add_chain, u32, u64, +)
CHAINED(add_chain, u64, unsigned __int128, +)
CHAINED(sub_chain, u32, u64, -)
CHAINED(sub_chain, u64, unsigned __int128, -)

#define CHAINED_PRODUCT(name, type, wide, part)                                                           \
    static void name##_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) { \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                               \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                               \
        const uint64_t *from_c = source_values(warp, instruction->from[2]);                               \
        typedef UNSIGNED(type) bits;                                                                      \
        uint64_t *to = result_values(warp, instruction->to);                                              \
        FOR_LANES(lanes, {                                                                                \
            wide product = (wide)(type)from_a[lane] * (wide)(type)from_b[lane];                           \
            unsigned __int128 sum = (unsigned __int128)(bits)(product >> (part)) + (bits)from_c[lane];    \
            if (instruction->carries_in) sum += warp->carry[lane];                                        \
            to[lane] = (bits)sum;                                                                         \
            if (instruction->carries_out) warp->carry[lane] = (sum >> (8 * sizeof(bits)) & 1) != 0;       \
        });                                                                                               \
    }
CHAINED_PRODUCT(mad_lo_chain, u32, u64, 0)
CHAINED_PRODUCT(mad_hi_chain, u32, u64, 32)
CHAINED_PRODUCT(mad_hi_chain, s32, s64, 32)
CHAINED_PRODUCT(mad_lo_chain, u64, unsigned __int128, 0)
CHAINED_PRODUCT(mad_hi_chain, u64, unsigned __int128, 64)
CHAINED_PRODUCT(mad_hi_chain, s64, __int128, 64)

#define COMMON_ROWS(t, T)                                                                                           \
    {"add", T, 2, add_##t}, {"sub", T, 2, sub_##t}, {"mul.lo", T, 2, mul_lo_##t}, {"mul.hi", T, 2, mul_hi_##t},     \
        {"mad.lo", T, 3, mad_lo_##t}, {"mad.hi", T, 3, mad_hi_##t}, {"min", T, 2, min_##t}, {"max", T, 2, max_##t}, \
        {"sad", T, 3, sad_##t}, {"div", T, 2, div_##t}, {                                                           \
        "rem", T, 2, rem_##t                                                                                        \
    }

#define CHAIN_ROWS(t, T, product_hi)                                                                                  \
    {"add.chain", T, 2, add_chain_##t}, {"sub.chain", T, 2, sub_chain_##t}, {"mad.lo.chain", T, 3, mad_lo_chain_##t}, \
    {                                                                                                                 \
        "mad.hi.chain", T, 3, product_hi                                                                              \
    }

const struct operation_row INTEGER_OPERATIONS[] = {
    COMMON_ROWS(u16, TYPE_U16),
    COMMON_ROWS(u32, TYPE_U32),
    COMMON_ROWS(u64, TYPE_U64),
    COMMON_ROWS(s16, TYPE_S16),
    COMMON_ROWS(s32, TYPE_S32),
    COMMON_ROWS(s64, TYPE_S64),
    {"neg", TYPE_S16, 1, neg_s16},
    {"neg", TYPE_S32, 1, neg_s32},
    {"neg", TYPE_S64, 1, neg_s64},
    {"abs", TYPE_S16, 1, abs_s16},
    {"abs", TYPE_S32, 1, abs_s32},
    {"abs", TYPE_S64, 1, abs_s64},
    {"add.sat", TYPE_S32, 2, add_sat_s32},
    {"sub.sat", TYPE_S32, 2, sub_sat_s32},
    {"mad.hi.sat", TYPE_S32, 3, mad_hi_sat_s32},
    {"mul.wide", TYPE_U16, 2, mul_wide_u16},
    {"mul.wide", TYPE_S16, 2, mul_wide_s16},
    {"mul.wide", TYPE_U32, 2, mul_wide_u32},
    {"mul.wide", TYPE_S32, 2, mul_wide_s32},
    {"mad.wide", TYPE_U16, 3, mad_wide_u16},
    {"mad.wide", TYPE_S16, 3, mad_wide_s16},
    {"mad.wide", TYPE_U32, 3, mad_wide_u32},
    {"mad.wide", TYPE_S32, 3, mad_wide_s32},
    {"mul24.lo", TYPE_U32, 2, mul24_lo_u32},
    {"mul24.lo", TYPE_S32, 2, mul24_lo_s32},
    {"mul24.hi", TYPE_U32, 2, mul24_hi_u32},
    {"mul24.hi", TYPE_S32, 2, mul24_hi_s32},
    {"mad24.lo", TYPE_U32, 3, mad24_lo_u32},
    {"mad24.lo", TYPE_S32, 3, mad24_lo_s32},
    CHAIN_ROWS(u32, TYPE_U32, mad_hi_chain_u32),
    CHAIN_ROWS(u32, TYPE_S32, mad_hi_chain_s32),
    CHAIN_ROWS(u64, TYPE_U64, mad_hi_chain_u64),
    CHAIN_ROWS(u64, TYPE_S64, mad_hi_chain_s64),
    {NULL, TYPE_NONE, 0, NULL},
};

/* Arithmetic on floats of 32 and 64 bits. Functions that a GPU only approximates are computed exactly, and rounded. */
#include <stddef.h>

#include "operations.h"
#include "values.h"

static f32 saturate_f32(f32 value, bool saturates) {
    return !saturates ? value : value > 1 ? 1 : value > 0 ? value : 0;
}
static f64 saturate_f64(f64 value, bool saturates) {
    return !saturates ? value : value > 1 ? 1 : value > 0 ? value : 0;
}

/* GPUs have one NaN for results. */
static uint64_t put_result_f32(f32 value) { return isnan(value) ? 0x7fffffffu : put_f32(value); }
static uint64_t put_result_f64(f64 value) { return isnan(value) ? UINT64_C(0x7fffffffffffffff) : put_f64(value); }

/* An instruction on so many floats, by its rounding; calls of opaque functions keep the compiler from moving what is
 * rounded. */
#define ROUNDED(name, type, count, expression)                                                            \
    static void name##_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) { \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                               \
        const uint64_t *from_b = source_values(warp, instruction->from[(count) > 1 ? 1 : 0]);             \
        const uint64_t *from_c = source_values(warp, instruction->from[(count) > 2 ? 2 : 0]);             \
        uint64_t *to = result_values(warp, instruction->to);                                              \
        bool flushes = instruction->flushes, saturates = instruction->saturates;                          \
        if (instruction->rounding != ROUND_NEAREST) fesetround(host_rounding(instruction->rounding));     \
        FOR_LANES(lanes, {                                                                                \
            type a = flush_##type(get_##type(from_a[lane]), flushes);                                     \
            type b = flush_##type(get_##type(from_b[lane]), flushes);                                     \
            type c = flush_##type(get_##type(from_c[lane]), flushes);                                     \
            (void)b, (void)c;                                                                             \
            type result = flush_##type((type)(expression), flushes);                                      \
            to[lane] = put_result_##type(saturate_##type(result, saturates));                             \
        });                                                                                               \
        if (instruction->rounding != ROUND_NEAREST) fesetround(FE_TONEAREST);                             \
    }

#define ARITHMETIC(type, suffix)                \
    ROUNDED(add, type, 2, a + b)                \
    ROUNDED(sub, type, 2, a - b)                \
    ROUNDED(mul, type, 2, a *b)                 \
    ROUNDED(div, type, 2, a / b)                \
    ROUNDED(fma, type, 3, fma##suffix(a, b, c)) \
    ROUNDED(rcp, type, 1, 1 / a)                \
    ROUNDED(sqrt, type, 1, sqrt##suffix(a))
ARITHMETIC(f32, f)
ARITHMETIC(f64, )

ROUNDED(rsqrt, f32, 1, 1 / sqrt((f64)a))
ROUNDED(rsqrt, f64, 1, 1 / sqrt(a))
ROUNDED(sin, f32, 1, sin((f64)a))
ROUNDED(cos, f32, 1, cos((f64)a))
ROUNDED(lg2, f32, 1, log2((f64)a))
ROUNDED(ex2, f32, 1, exp2((f64)a))
ROUNDED(tanh, f32, 1, tanh((f64)a))

/* The upper halves only: rcp.approx.ftz.f64 takes and gives numbers whose lower 32 bits are zero. */
static f64 upper_half(f64 value) { return get_f64(put_f64(value) & ~UINT64_C(0xffffffff)); }
static f64 flush_wide(f64 value) { return fabs(value) < 0x1p-1022 ? copysign(0, value) : value; }
ROUNDED(rcp_upper, f64, 1, flush_wide(upper_half(1 / flush_wide(upper_half(a)))))
ROUNDED(rsqrt_upper, f64, 1, flush_wide(upper_half(1 / sqrt(flush_wide(upper_half(a))))))

/* Signs are changed in the bits, so that a NaN keeps what it carries. */
#define SIGNS(type, bits, sign)                                                                                   \
    static void neg_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {            \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                                       \
        uint64_t *to = result_values(warp, instruction->to);                                                      \
        FOR_LANES(lanes,                                                                                          \
                  to[lane] = put_##type(flush_##type(get_##type(from_a[lane] ^ (sign)), instruction->flushes)));  \
    }                                                                                                             \
    static void abs_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {            \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                                       \
        uint64_t *to = result_values(warp, instruction->to);                                                      \
        FOR_LANES(lanes,                                                                                          \
                  to[lane] = put_##type(flush_##type(get_##type(from_a[lane] & ~(sign)), instruction->flushes))); \
    }                                                                                                             \
    static void copysign_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {       \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                                       \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                                       \
        uint64_t *to = result_values(warp, instruction->to);                                                      \
        FOR_LANES(lanes, to[lane] = (bits)((from_a[lane] & (sign)) | (from_b[lane] & ~(sign))));                  \
    }
SIGNS(f32, uint32_t, UINT64_C(0x80000000))
SIGNS(f64, uint64_t, UINT64_C(0x8000000000000000))

/* The other number if one is a NaN, unless the instruction hands NaN on; -0 is less than 0. */
#define LEAST_AND_MOST(type)                                                                                \
    static type least_##type(type a, type b, bool hands_on) {                                               \
        if (isnan(a) || isnan(b)) return hands_on || (isnan(a) && isnan(b)) ? (type)NAN : isnan(a) ? b : a; \
        return a < b || (a == b && signbit(a)) ? a : b;                                                     \
    }                                                                                                       \
    static type most_##type(type a, type b, bool hands_on) {                                                \
        if (isnan(a) || isnan(b)) return hands_on || (isnan(a) && isnan(b)) ? (type)NAN : isnan(a) ? b : a; \
        return a > b || (a == b && !signbit(a)) ? a : b;                                                    \
    }                                                                                                       \
    ROUNDED(min, type, 2, least_##type(a, b, instruction->variant & 1))                                     \
    ROUNDED(max, type, 2, most_##type(a, b, instruction->variant & 1))
LEAST_AND_MOST(f32)
LEAST_AND_MOST(f64)

#define ROWS(t, T)                                                                                                    \
    {"add", T, 2, add_##t}, {"sub", T, 2, sub_##t}, {"mul", T, 2, mul_##t}, {"div", T, 2, div_##t},                   \
        {"fma", T, 3, fma_##t}, {"mad", T, 3, fma_##t}, {"rcp", T, 1, rcp_##t}, {"sqrt", T, 1, sqrt_##t},             \
        {"rsqrt", T, 1, rsqrt_##t}, {"neg", T, 1, neg_##t}, {"abs", T, 1, abs_##t}, {"copysign", T, 2, copysign_##t}, \
        {"min", T, 2, min_##t}, {                                                                                     \
        "max", T, 2, max_##t                                                                                          \
    }

const struct operation_row FLOAT_OPERATIONS[] = {
    ROWS(f32, TYPE_F32),
    ROWS(f64, TYPE_F64),
    {"sin", TYPE_F32, 1, sin_f32},
    {"cos", TYPE_F32, 1, cos_f32},
    {"lg2", TYPE_F32, 1, lg2_f32},
    {"ex2", TYPE_F32, 1, ex2_f32},
    {"tanh", TYPE_F32, 1, tanh_f32},
    {"rcp.upper", TYPE_F64, 1, rcp_upper_f64},
    {"rsqrt.upper", TYPE_F64, 1, rsqrt_upper_f64},
    {NULL, TYPE_NONE, 0, NULL},
};

/* Numbers in registers: 64 bits each, of which an instruction uses as many as its type has. */
#ifndef GPUYARD_PTX_VALUES_H
#define GPUYARD_PTX_VALUES_H

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "half.h"
#include "warp.h"

typedef uint16_t b16, u16;
typedef int16_t s16;
typedef uint32_t b32, u32;
typedef int32_t s32;
typedef uint64_t b64, u64;
typedef int64_t s64;
typedef float f32;
typedef double f64;

#define WHOLE(type)                                                     \
    static inline type get_##type(uint64_t bits) { return (type)bits; } \
    static inline uint64_t put_##type(type value) { return (uint64_t)value; }
WHOLE(b16)
WHOLE(u16)
WHOLE(b32)
WHOLE(u32)
WHOLE(b64)
WHOLE(u64)
WHOLE(s64)
#undef WHOLE

static inline s16 get_s16(uint64_t bits) { return (s16)bits; }
static inline uint64_t put_s16(s16 value) { return (uint16_t)value; }
static inline s32 get_s32(uint64_t bits) { return (s32)bits; }
static inline uint64_t put_s32(s32 value) { return (uint32_t)value; }

static inline f32 get_f32(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    f32 value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static inline uint64_t put_f32(f32 value) {
    uint32_t low;
    memcpy(&low, &value, sizeof low);
    return low;
}

static inline f64 get_f64(uint64_t bits) {
    f64 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t put_f64(f64 value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The host's name of a rounding. */
static inline int host_rounding(enum rounding rounding) {
    switch (rounding) {
        case ROUND_ZERO: return FE_TOWARDZERO;
        case ROUND_DOWN: return FE_DOWNWARD;
        case ROUND_UP: return FE_UPWARD;
        default: return FE_TONEAREST;
    }
}

/* Numbers below the smallest normal one count as zero where an instruction says so. */
static inline f32 flush_f32(f32 value, bool flushes) {
    return flushes && fabsf(value) < 0x1p-126f ? copysignf(0, value) : value;
}
static inline f64 flush_f64(f64 value, bool flushes) {
    (void)flushes;
    return value;
}

/* A float of any type of up to 64 bits. */
static inline f64 float_value(uint64_t bits, enum type type, bool flushes) {
    switch (type) {
        case TYPE_F64: return get_f64(bits);
        case TYPE_F32: return flush_f32(get_f32(bits), flushes);
        case TYPE_F16: return half_to_double((uint16_t)bits);
        default: return bfloat_to_double((uint16_t)bits);
    }
}

/* Repeats a statement for each lane, `lane`; whole warps in a loop that a compiler can make wide. */
#define FOR_LANES(lanes, ...)                                              \
    do {                                                                   \
        if ((lanes) == ALL_LANES) {                                        \
            for (unsigned int lane = 0; lane < LANES; lane++) __VA_ARGS__; \
        } else {                                                           \
            for (unsigned int lane = 0; lane < LANES; lane++)              \
                if ((lanes) >> lane & 1) __VA_ARGS__;                      \
        }                                                                  \
    } while (0)

/* Where a result goes; a register that nobody reads if it is dropped. */
static inline uint64_t *result_values(struct warp *warp, int32_t index) {
    static _Thread_local uint64_t dropped[LANES];
    return index >= 0 ? warp->base[index] : dropped;
}

/* Defines the run of an instruction of so many operands; the expression may use a, b, c, the instruction, and the lane.
 */
#define UNARY(name, type, expression)                                                                     \
    static void name##_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) { \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                               \
        uint64_t *to = result_values(warp, instruction->to);                                              \
        FOR_LANES(lanes, {                                                                                \
            type a = get_##type(from_a[lane]);                                                            \
            to[lane] = put_##type((type)(expression));                                                    \
        });                                                                                               \
    }

#define BINARY(name, type, expression)                                                                    \
    static void name##_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) { \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                               \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                               \
        uint64_t *to = result_values(warp, instruction->to);                                              \
        FOR_LANES(lanes, {                                                                                \
            type a = get_##type(from_a[lane]);                                                            \
            type b = get_##type(from_b[lane]);                                                            \
            to[lane] = put_##type((type)(expression));                                                    \
        });                                                                                               \
    }

#define TERNARY(name, type, expression)                                                                   \
    static void name##_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) { \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                               \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                               \
        const uint64_t *from_c = source_values(warp, instruction->from[2]);                               \
        uint64_t *to = result_values(warp, instruction->to);                                              \
        FOR_LANES(lanes, {                                                                                \
            type a = get_##type(from_a[lane]);                                                            \
            type b = get_##type(from_b[lane]);                                                            \
            type c = get_##type(from_c[lane]);                                                            \
            to[lane] = put_##type((type)(expression));                                                    \
        });                                                                                               \
    }

#endif

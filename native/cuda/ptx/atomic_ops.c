/* Atomic operations: also against other threads of the process that run kernels on the same memory. */
#include <stddef.h>

#include "operations.h"
#include "values.h"

/* Repeats until nobody came in between; `old` is what was there, and the expression what comes instead. */
#define ATOMIC(name, bits, expression)                                                                              \
    static void name(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {                    \
        const uint64_t *operand = source_values(warp, instruction->from[1]);                                        \
        const uint64_t *third =                                                                                     \
            instruction->from[2].kind == SOURCE_NONE ? operand : source_values(warp, instruction->from[2]);         \
        uint64_t *to = result_values(warp, instruction->to);                                                        \
        for (unsigned int lane = 0; lane < LANES; lane++) {                                                         \
            if (!(lanes >> lane & 1)) continue;                                                                     \
            bits *memory = (bits *)(void *)operand_address(warp, instruction, lane, sizeof *memory);                \
            if (memory == NULL) return;                                                                             \
            bits b = (bits)operand[lane];                                                                           \
            bits c = (bits)third[lane];                                                                             \
            (void)b, (void)c;                                                                                       \
            bits old = __atomic_load_n(memory, __ATOMIC_SEQ_CST);                                                   \
            for (bits new_bits;;) {                                                                                 \
                new_bits = (bits)(expression);                                                                      \
                if (__atomic_compare_exchange_n(memory, &old, new_bits, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) \
                    break;                                                                                          \
            }                                                                                                       \
            to[lane] = old;                                                                                         \
        }                                                                                                           \
    }

#define ON_BITS(width)                                                                       \
    ATOMIC(exchange_##width, uint##width##_t, b)                                             \
    ATOMIC(swap_##width, uint##width##_t, old == b ? c : old)                                \
    ATOMIC(and_##width, uint##width##_t, old &b)                                             \
    ATOMIC(or_##width, uint##width##_t, old | b)                                             \
    ATOMIC(xor_##width, uint##width##_t, old ^ b)                                            \
    ATOMIC(add_##width, uint##width##_t, old + b)                                            \
    ATOMIC(min_u##width, uint##width##_t, old < b ? old : b)                                 \
    ATOMIC(max_u##width, uint##width##_t, old > b ? old : b)                                 \
    ATOMIC(min_s##width, uint##width##_t, (int##width##_t)old < (int##width##_t)b ? old : b) \
    ATOMIC(max_s##width, uint##width##_t, (int##width##_t)old > (int##width##_t)b ? old : b)
ON_BITS(32)
ON_BITS(64)
ATOMIC(swap_16, uint16_t, old == b ? c : old)
ATOMIC(increment, uint32_t, old >= b ? 0 : old + 1)
ATOMIC(decrement, uint32_t, old == 0 || old > b ? b : old - 1)
ATOMIC(add_f32, uint32_t, put_f32(get_f32(old) + get_f32(b)))
ATOMIC(add_f64, uint64_t, put_f64(get_f64(old) + get_f64(b)))
ATOMIC(add_f16, uint16_t, half_from_double(half_to_double(old) + half_to_double(b)))
ATOMIC(add_bf16, uint16_t, bfloat_from_double(sum_to_odd(bfloat_to_double(old), bfloat_to_double(b))))

static uint32_t sum_of_pairs(uint32_t a, uint32_t b) {
    uint32_t low = half_from_double(half_to_double((uint16_t)a) + half_to_double((uint16_t)b));
    return low | (uint32_t)half_from_double(half_to_double((uint16_t)(a >> 16)) + half_to_double((uint16_t)(b >> 16)))
                     << 16;
}
ATOMIC(add_f16x2, uint32_t, sum_of_pairs(old, b))

static const struct {
    const char *name;
    enum type type;
    plain_run run;
} ROWS[] = {
    {"exch", TYPE_B32, exchange_32}, {"exch", TYPE_B64, exchange_64}, {"exch", TYPE_U32, exchange_32},
    {"exch", TYPE_U64, exchange_64}, {"exch", TYPE_S32, exchange_32}, {"exch", TYPE_S64, exchange_64},
    {"exch", TYPE_F32, exchange_32}, {"cas", TYPE_B16, swap_16},      {"cas", TYPE_B32, swap_32},
    {"cas", TYPE_B64, swap_64},      {"cas", TYPE_U32, swap_32},      {"cas", TYPE_U64, swap_64},
    {"cas", TYPE_S32, swap_32},      {"cas", TYPE_S64, swap_64},      {"and", TYPE_B32, and_32},
    {"and", TYPE_B64, and_64},       {"or", TYPE_B32, or_32},         {"or", TYPE_B64, or_64},
    {"xor", TYPE_B32, xor_32},       {"xor", TYPE_B64, xor_64},       {"add", TYPE_U32, add_32},
    {"add", TYPE_S32, add_32},       {"add", TYPE_U64, add_64},       {"add", TYPE_S64, add_64},
    {"add", TYPE_F32, add_f32},      {"add", TYPE_F64, add_f64},      {"add", TYPE_F16, add_f16},
    {"add", TYPE_BF16, add_bf16},    {"add", TYPE_F16X2, add_f16x2},  {"min", TYPE_U32, min_u32},
    {"min", TYPE_S32, min_s32},      {"min", TYPE_U64, min_u64},      {"min", TYPE_S64, min_s64},
    {"max", TYPE_U32, max_u32},      {"max", TYPE_S32, max_s32},      {"max", TYPE_U64, max_u64},
    {"max", TYPE_S64, max_s64},      {"inc", TYPE_U32, increment},    {"dec", TYPE_U32, decrement},
};

plain_run find_atomic(const char *name, enum type type) {
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].type == type && strcmp(ROWS[i].name, name) == 0) return ROWS[i].run;
    return NULL;
}

/* Operations on bits. */
#include <stddef.h>

#include "operations.h"
#include "values.h"

/* Shifts by as many places as there are bits, or more, leave nothing but the sign. */
#define SHIFT(type, bits)                                                                                  \
    static void shl_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {     \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                                \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                                \
        uint64_t *to = result_values(warp, instruction->to);                                               \
        FOR_LANES(lanes, to[lane] = (uint32_t)from_b[lane] >= bits                                         \
                                        ? 0                                                                \
                                        : (type)((uint64_t)(type)from_a[lane] << (uint32_t)from_b[lane])); \
    }                                                                                                      \
    static void shr_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {     \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                                \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                                \
        uint64_t *to = result_values(warp, instruction->to);                                               \
        FOR_LANES(lanes, to[lane] = (uint32_t)from_b[lane] >= bits                                         \
                                        ? 0                                                                \
                                        : (uint64_t)(type)from_a[lane] >> (uint32_t)from_b[lane]);         \
    }
SHIFT(b16, 16)
SHIFT(b32, 32)
SHIFT(b64, 64)

#define SHIFT_SIGNED(type, bits)                                                                             \
    static void shr_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {       \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                                  \
        const uint64_t *from_b = source_values(warp, instruction->from[1]);                                  \
        uint64_t *to = result_values(warp, instruction->to);                                                 \
        FOR_LANES(lanes, {                                                                                   \
            uint32_t places = (uint32_t)from_b[lane];                                                        \
            to[lane] = put_##type((type)(get_##type(from_a[lane]) >> (places >= bits ? bits - 1 : places))); \
        });                                                                                                  \
    }
SHIFT_SIGNED(s16, 16)
SHIFT_SIGNED(s32, 32)
SHIFT_SIGNED(s64, 64)

#define LOGIC(type)            \
    BINARY(and, type, a &(b))  \
    BINARY(or, type, a | (b))  \
    BINARY(xor, type, a ^ (b)) \
    UNARY(not, type, ~a)       \
    UNARY(cnot, type, a == 0)
LOGIC(b16)
LOGIC(b32)
LOGIC(b64)

/* The result of any function of three bits, given as a table of its eight values. */
static b32 table_of_three(b32 a, b32 b, b32 c, uint64_t table) {
    b32 result = 0;
    for (unsigned int i = 0; i < 8; i++)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}
TERNARY(lop3, b32, table_of_three(a, b, c, source_values(warp, instruction->from[3])[lane]))

/* Two registers as one, of which 32 bits are cut out. */
static b32 funnel_left(b32 low, b32 high, b32 places) {
    return places == 0 ? high : places >= 32 ? low : high << places | low >> (32 - places);
}
static b32 funnel_right(b32 low, b32 high, b32 places) {
    return places == 0 ? low : places >= 32 ? high : low >> places | high << (32 - places);
}
TERNARY(shf_l_clamp, b32, funnel_left(a, b, c > 32 ? 32 : c))
TERNARY(shf_r_clamp, b32, funnel_right(a, b, c > 32 ? 32 : c))
TERNARY(shf_l_wrap, b32, funnel_left(a, b, c & 31))
TERNARY(shf_r_wrap, b32, funnel_right(a, b, c & 31))

/* Results of 32 bits, whatever the operand has. */
#define COUNT(name, type, expression)                                                                     \
    static void name##_##type(struct warp *warp, const struct instruction *instruction, uint32_t lanes) { \
        const uint64_t *from_a = source_values(warp, instruction->from[0]);                               \
        uint64_t *to = result_values(warp, instruction->to);                                              \
        FOR_LANES(lanes, {                                                                                \
            type a = get_##type(from_a[lane]);                                                            \
            to[lane] = (uint32_t)(expression);                                                            \
        });                                                                                               \
    }
COUNT(popc, b32, __builtin_popcount(a))
COUNT(popc, b64, __builtin_popcountll(a))
COUNT(clz, b32, a == 0 ? 32 : __builtin_clz(a))
COUNT(clz, b64, a == 0 ? 64 : __builtin_clzll(a))

/* Where the highest bit is that differs from the sign; bfind.shiftamt counts from above. */
static uint32_t highest(uint64_t bits, unsigned int width, bool from_above) {
    if (bits == 0) return 0xffffffffu;
    uint32_t place = 63 - (uint32_t)__builtin_clzll(bits);
    return from_above ? width - 1 - place : place;
}
COUNT(bfind, u32, highest(a, 32, instruction->variant))
COUNT(bfind, u64, highest(a, 64, instruction->variant))
COUNT(bfind, s32, highest((u32)(a < 0 ? ~a : a), 32, instruction->variant))
COUNT(bfind, s64, highest((u64)(a < 0 ? ~a : a), 64, instruction->variant))

static b64 reversed(b64 bits, unsigned int width) {
    b64 result = 0;
    for (unsigned int i = 0; i < width; i++) result |= (bits >> i & 1) << (width - 1 - i);
    return result;
}
UNARY(brev, b32, (b32)reversed(a, 32))
UNARY(brev, b64, reversed(a, 64))

/* Fields of bits: where they begin and how long they are, both up to 255. */
static uint64_t extracted(uint64_t bits, unsigned int width, bool is_signed, uint32_t start, uint32_t length) {
    start &= 255;
    length &= 255;
    uint64_t mask = width == 64 ? ~UINT64_C(0) : (UINT64_C(1) << width) - 1;
    uint32_t last = start + length - 1 < width - 1 ? start + length - 1 : width - 1;
    uint64_t sign = is_signed && length > 0 ? bits >> last & 1 : 0;
    uint64_t result = 0;
    for (unsigned int i = 0; i < width; i++) {
        uint64_t bit = i < length && start + i < width ? bits >> (start + i) & 1 : sign;
        result |= bit << i;
    }
    return result & mask;
}

static uint64_t inserted(uint64_t field, uint64_t into, unsigned int width, uint32_t start, uint32_t length) {
    start &= 255;
    length &= 255;
    for (unsigned int i = 0; i < length && start + i < width; i++) {
        into &= ~(UINT64_C(1) << (start + i));
        into |= (field >> i & 1) << (start + i);
    }
    return into;
}

#define FIELDS(type, width, is_signed) \
    TERNARY(bfe, type, (type)extracted((u64)a, width, is_signed, (uint32_t)b, (uint32_t)c))
FIELDS(u32, 32, false)
FIELDS(s32, 32, true)
FIELDS(u64, 64, false)
FIELDS(s64, 64, true)
#define THIRD ((uint32_t)c)
#define FOURTH ((uint32_t)source_values(warp, instruction->from[3])[lane])
TERNARY(bfi, b32, (b32)inserted(a, b, 32, THIRD, FOURTH))
TERNARY(bfi, b64, inserted(a, b, 64, THIRD, FOURTH))

/* bmsk: a mask of so many bits. */
static b32 mask_of(b32 start, b32 length, bool wraps) {
    if (wraps) start &= 31, length &= 31;
    if (start >= 32 || length == 0) return 0;
    b32 ones = length >= 32 ? 0xffffffffu : (1u << length) - 1;
    return ones << start;
}
BINARY(bmsk_clamp, b32, mask_of(a, b, false))
BINARY(bmsk_wrap, b32, mask_of(a, b, true))

/* prmt: four bytes chosen out of eight, or their signs. */
enum { PERMUTE_DEFAULT, PERMUTE_F4E, PERMUTE_B4E, PERMUTE_RC8, PERMUTE_ECL, PERMUTE_ECR, PERMUTE_RC16 };

static unsigned int chosen_byte(unsigned int mode, unsigned int place, uint32_t control) {
    unsigned int c = control & 3;
    switch (mode) {
        case PERMUTE_F4E: return c + place;
        case PERMUTE_B4E: return (c + 8 - place) & 7;
        case PERMUTE_RC8: return c;
        case PERMUTE_ECL: return place > c ? place : c;
        case PERMUTE_ECR: return place < c ? place : c;
        case PERMUTE_RC16: return (place & 1) + 2 * (c & 1);
        default: return control >> (4 * place) & 15;
    }
}

static b32 permuted(b32 a, b32 b, b32 control, unsigned int mode) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    b32 result = 0;
    for (unsigned int place = 0; place < 4; place++) {
        unsigned int chosen = chosen_byte(mode, place, control);
        uint32_t byte = (uint32_t)(bytes >> (8 * (chosen & 7))) & 255;
        if (chosen & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * place);
    }
    return result;
}
TERNARY(prmt, b32, permuted(a, b, c, instruction->variant))

/* Sums of products of bytes; `variant` has bit 0 for signed a, bit 1 for signed b. */
static b32 dot_of_bytes(b32 a, b32 b, b32 c, unsigned int variant) {
    for (unsigned int i = 0; i < 4; i++) {
        int32_t x = a >> (8 * i) & 255, y = b >> (8 * i) & 255;
        if (variant & 1) x = (int8_t)x;
        if (variant & 2) y = (int8_t)y;
        c += (b32)(x * y);
    }
    return c;
}
TERNARY(dp4a, b32, dot_of_bytes(a, b, c, instruction->variant))

#define LOGIC_ROWS(t, T)                                                                            \
    {"and", T, 2, and_##t}, {"or", T, 2, or_##t}, {"xor", T, 2, xor_##t}, {"not", T, 1, not_##t}, { \
        "cnot", T, 1, cnot_##t                                                                      \
    }
#define SHIFT_ROWS(t, B, U) \
    {"shl", B, 2, shl_##t}, {"shr", B, 2, shr_##t}, { "shr", U, 2, shr_##t }

const struct operation_row BIT_OPERATIONS[] = {
    LOGIC_ROWS(b16, TYPE_B16),
    LOGIC_ROWS(b32, TYPE_B32),
    LOGIC_ROWS(b64, TYPE_B64),
    SHIFT_ROWS(b16, TYPE_B16, TYPE_U16),
    SHIFT_ROWS(b32, TYPE_B32, TYPE_U32),
    SHIFT_ROWS(b64, TYPE_B64, TYPE_U64),
    {"shr", TYPE_S16, 2, shr_s16},
    {"shr", TYPE_S32, 2, shr_s32},
    {"shr", TYPE_S64, 2, shr_s64},
    {"lop3", TYPE_B32, 4, lop3_b32},
    {"prmt", TYPE_B32, 3, prmt_b32},
    {"shf.l.clamp", TYPE_B32, 3, shf_l_clamp_b32},
    {"shf.r.clamp", TYPE_B32, 3, shf_r_clamp_b32},
    {"shf.l.wrap", TYPE_B32, 3, shf_l_wrap_b32},
    {"shf.r.wrap", TYPE_B32, 3, shf_r_wrap_b32},
    {"popc", TYPE_B32, 1, popc_b32},
    {"popc", TYPE_B64, 1, popc_b64},
    {"clz", TYPE_B32, 1, clz_b32},
    {"clz", TYPE_B64, 1, clz_b64},
    {"bfind", TYPE_U32, 1, bfind_u32},
    {"bfind", TYPE_U64, 1, bfind_u64},
    {"bfind", TYPE_S32, 1, bfind_s32},
    {"bfind", TYPE_S64, 1, bfind_s64},
    {"brev", TYPE_B32, 1, brev_b32},
    {"brev", TYPE_B64, 1, brev_b64},
    {"bfe", TYPE_U32, 3, bfe_u32},
    {"bfe", TYPE_S32, 3, bfe_s32},
    {"bfe", TYPE_U64, 3, bfe_u64},
    {"bfe", TYPE_S64, 3, bfe_s64},
    {"bfi", TYPE_B32, 4, bfi_b32},
    {"bfi", TYPE_B64, 4, bfi_b64},
    {"bmsk.clamp", TYPE_B32, 2, bmsk_clamp_b32},
    {"bmsk.wrap", TYPE_B32, 2, bmsk_wrap_b32},
    {"dp4a", TYPE_B32, 3, dp4a_b32},
    {NULL, TYPE_NONE, 0, NULL},
};

/* Conversions between types, and between addresses. */
#include <stddef.h>

#include "operations.h"
#include "values.h"

/* cvt's `variant`: 0 a float stays one as it is, 1 it becomes a whole number by the instruction's rounding. */
static double to_whole(double value, enum rounding rounding) {
    switch (rounding) {
        case ROUND_ZERO: return trunc(value);
        case ROUND_DOWN: return floor(value);
        case ROUND_UP: return ceil(value);
        default: return nearbyint(value);
    }
}

static uint64_t sign_extended(uint64_t bits, enum type type) {
    unsigned int unused = 64 - 8 * type_bytes(type);
    return type_is_signed(type) ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits << unused >> unused;
}

static uint64_t most_of(enum type type) {
    unsigned int bits = 8 * type_bytes(type) - type_is_signed(type);
    return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

/* Numbers beyond a type's range become its ends, and NaN zero. */
static uint64_t float_to_whole(double value, const struct instruction *instruction) {
    enum type type = instruction->type;
    double whole = to_whole(value, instruction->rounding);
    uint64_t most = most_of(type), least = type_is_signed(type) ? ~most : 0;
    if (isnan(whole)) return 0;
    if (whole >= (double)most) return most;
    if (whole <= (double)(int64_t)least) return least;
    return type_is_signed(type) ? (uint64_t)(int64_t)whole : (uint64_t)whole;
}

static uint64_t whole_to_whole(uint64_t bits, const struct instruction *instruction) {
    uint64_t value = sign_extended(bits, instruction->from_type);
    enum type type = instruction->type;
    if (!instruction->saturates) return value;
    bool negative = type_is_signed(instruction->from_type) && (int64_t)value < 0;
    uint64_t most = most_of(type);
    if (negative && !type_is_signed(type)) return 0;
    if (negative) return (int64_t)value < (int64_t)~most ? ~most : value;
    return value > most ? most : value;
}

static double limited(double value, const struct instruction *instruction) {
    if (instruction->saturates) return value > 1 ? 1 : value > 0 ? value : 0;
    if (instruction->relu && value < 0) return 0;
    return value;
}

static uint64_t small_float(double value, enum type type, const struct instruction *instruction) {
    return small_float_from_double(limited(value, instruction), type == TYPE_BF16 ? 7 : 10, instruction->rounding);
}

/* A double to a single by any rounding: away from the nearest by one place if that went the wrong way. */
static f32 to_single(double value, enum rounding rounding) {
    f32 nearest = (f32)value;
    if (isnan(value) || (double)nearest == value || rounding == ROUND_NEAREST) return nearest;
    bool too_high = (double)nearest > value;
    bool wants_lower = rounding == ROUND_DOWN || (rounding == ROUND_ZERO && value > 0);
    if (wants_lower && too_high) return nextafterf(nearest, -INFINITY);
    if (!wants_lower && !too_high) return nextafterf(nearest, INFINITY);
    return nearest;
}

static uint64_t to_float(double value, const struct instruction *instruction) {
    if (instruction->variant == 1) value = to_whole(value, instruction->rounding);
    enum rounding rounding = instruction->variant == 1 ? ROUND_NEAREST : instruction->rounding;
    switch (instruction->type) {
        case TYPE_F64: return isnan(value) ? UINT64_C(0x7fffffffffffffff) : put_f64(limited(value, instruction));
        case TYPE_F32:
            if (isnan(value)) return instruction->saturates ? 0 : 0x7fffffff;
            return put_f32(flush_f32(to_single(limited(value, instruction), rounding), instruction->flushes));
        default:
            return small_float_from_double(limited(value, instruction), instruction->type == TYPE_BF16 ? 7 : 10,
                                           rounding);
    }
}

/* Whole numbers of 64 bits may not fit a double, so they are rounded straight to what is wanted. */
static uint64_t whole_to_float(uint64_t bits, const struct instruction *instruction) {
    uint64_t value = sign_extended(bits, instruction->from_type);
    bool is_signed = type_is_signed(instruction->from_type);
    fesetround(host_rounding(instruction->rounding));
    volatile double wide = is_signed ? (double)(int64_t)value : (double)value;
    volatile float single = is_signed ? (float)(int64_t)value : (float)value;
    fesetround(FE_TONEAREST);
    if (instruction->type == TYPE_F64) return put_f64(wide);
    if (instruction->type == TYPE_F32) return put_f32(single);
    /* What a double loses is far beyond what 16 bits can hold or tell apart, but for ties: those are told by rounding
     * to odd. */
    double exact = is_signed ? (double)((int64_t)value & ~(int64_t)2047) : (double)(value & ~UINT64_C(2047));
    double rest = (double)(value & 2047);
    return small_float(sum_to_odd(exact, rest), instruction->type, instruction);
}

static void convert(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *from = source_values(warp, instruction->from[0]);
    uint64_t *to = result_values(warp, instruction->to);
    bool from_float = type_is_float(instruction->from_type), to_a_float = type_is_float(instruction->type);
    FOR_LANES(lanes, {
        uint64_t bits = from[lane];
        if (from_float) {
            double value = float_value(bits, instruction->from_type, instruction->flushes);
            to[lane] = to_a_float ? to_float(value, instruction) : float_to_whole(value, instruction);
        } else {
            to[lane] = to_a_float ? whole_to_float(bits, instruction) : whole_to_whole(bits, instruction);
        }
    });
}

static bool is_simple(enum type type) {
    return type >= TYPE_B8 && type <= TYPE_F64 && type != TYPE_F16X2 && type != TYPE_BF16X2;
}

plain_run find_convert(enum type to, enum type from) { return is_simple(to) && is_simple(from) ? convert : NULL; }

/* Two singles into one register of two halves, the first above. */
static void convert_pair(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *upper = source_values(warp, instruction->from[0]),
                   *lower = source_values(warp, instruction->from[1]);
    uint64_t *to = result_values(warp, instruction->to);
    enum type type = instruction->type == TYPE_F16X2 ? TYPE_F16 : TYPE_BF16;
    FOR_LANES(lanes, {
        uint64_t above = small_float(get_f32(upper[lane]), type, instruction);
        to[lane] = above << 16 | small_float(get_f32(lower[lane]), type, instruction);
    });
}

plain_run find_convert_pair(enum type to) { return to == TYPE_F16X2 || to == TYPE_BF16X2 ? convert_pair : NULL; }

/* Where an address space begins, as a generic address. Global and constant addresses are generic already. */
static uint64_t space_begin(const struct warp *warp, enum space space, unsigned int lane) {
    switch (space) {
        case SPACE_SHARED: return (uintptr_t)warp->block->shared;
        case SPACE_LOCAL: return (uintptr_t)warp->lanes[lane].memory;
        case SPACE_PARAM: return (uintptr_t)warp->block->launch->arguments;
        default: return 0;
    }
}

static void to_generic(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *from = source_values(warp, instruction->from[0]);
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, to[lane] = from[lane] + space_begin(warp, instruction->space, lane));
}

static void from_generic(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *from = source_values(warp, instruction->from[0]);
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, to[lane] = from[lane] - space_begin(warp, instruction->space, lane));
}

plain_run find_convert_address(bool to_space) { return to_space ? from_generic : to_generic; }

static bool lies_in(const struct warp *warp, enum space space, unsigned int lane, uint64_t address) {
    const struct block *block = warp->block;
    size_t bytes = space == SPACE_SHARED  ? block->shared_bytes
                   : space == SPACE_LOCAL ? warp->memory_bytes
                                          : block->launch->kernel->argument_bytes;
    return address - space_begin(warp, space, lane) < bytes;
}

static void is_space(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *from = source_values(warp, instruction->from[0]);
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, {
        bool elsewhere = lies_in(warp, SPACE_SHARED, lane, from[lane]) || lies_in(warp, SPACE_LOCAL, lane, from[lane]);
        bool global = instruction->space == SPACE_GLOBAL;
        to[lane] = global ? !elsewhere : lies_in(warp, instruction->space, lane, from[lane]);
    });
}

plain_run find_is_space(void) { return is_space; }

#include "half.h"

#include <math.h>
#include <string.h>

double half_to_double(uint16_t bits) {
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    unsigned int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24));
}

double bfloat_to_double(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds a positive number to a whole one. */
static double round_whole(double value, enum rounding rounding, int negative) {
    double down = floor(value), rest = value - down;
    switch (rounding) {
        case ROUND_ZERO: return down;
        case ROUND_UP: return rest > 0 && !negative ? down + 1 : down;
        case ROUND_DOWN: return rest > 0 && negative ? down + 1 : down;
        default: return rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0) ? down + 1 : down;
    }
}

uint16_t small_float_from_double(double value, unsigned int fraction_bits, enum rounding rounding) {
    unsigned int exponent_bits = 15 - fraction_bits;
    int bias = (1 << (exponent_bits - 1)) - 1, most = (1 << exponent_bits) - 1, exponent;
    if (isnan(value)) return 0x7fff;
    int negative = signbit(value) != 0;
    uint16_t sign = negative ? 0x8000 : 0;
    uint16_t infinite = (uint16_t)(sign | (unsigned int)most << fraction_bits);
    if (isinf(value)) return infinite;
    if (value == 0) return sign;
    frexp(value, &exponent); /* 0.5 <= fraction < 1 */
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double whole = round_whole(ldexp(fabs(value), (int)fraction_bits - exponent), rounding, negative);
    /* `whole` counts the last place, so that a carry moves into the exponent by itself. */
    uint32_t biased = whole >= (double)(1u << fraction_bits) ? (uint32_t)(exponent + bias - 1) << fraction_bits : 0;
    uint32_t bits = biased + (uint32_t)whole;
    if (bits < (uint32_t)most << fraction_bits) return (uint16_t)(sign | bits);
    int away = rounding == ROUND_NEAREST || (rounding == ROUND_UP && !negative) || (rounding == ROUND_DOWN && negative);
    return away ? infinite : (uint16_t)(infinite - 1);
}

uint16_t half_from_double(double value) { return small_float_from_double(value, 10, ROUND_NEAREST); }

uint16_t bfloat_from_double(double value) { return small_float_from_double(value, 7, ROUND_NEAREST); }

/* Rounding to odd keeps what was lost visible, so that rounding again to fewer bits gives what rounding once would. */
double sum_to_odd(double a, double b) {
    double sum = a + b;
    if (!isfinite(sum)) return sum;
    double part = sum - a, lost = (a - (sum - part)) + (b - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (lost == 0 || bits & 1) return sum;
    return nextafter(sum, lost > 0 ? INFINITY : -INFINITY);
}

double fused_to_odd(double a, double b, double c) { return sum_to_odd(a * b, c); }

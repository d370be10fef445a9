/* Floats of 16 bits: the two kinds that PTX has. */
#ifndef GPUYARD_PTX_HALF_H
#define GPUYARD_PTX_HALF_H

#include <stdint.h>

#include "program.h"

double half_to_double(uint16_t bits);
double bfloat_to_double(uint16_t bits);

/* Round to nearest, ties to even. */
uint16_t half_from_double(double value);
uint16_t bfloat_from_double(double value);

/* By any rounding; `fraction_bits` is 10 for f16 and 7 for bf16. */
uint16_t small_float_from_double(double value, unsigned int fraction_bits, enum rounding rounding);

/* a * b + c as if rounded only once, by the conversion that follows. */
double fused_to_odd(double a, double b, double c);
double sum_to_odd(double a, double b);

#endif

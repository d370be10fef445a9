"""Sorting many numbers that come in any order by their leading digits: three passes, however many there are."""

from __future__ import annotations

import numpy as np

from gpuyard.core.arrays import Floats, Ints
from gpuyard.core.kernel import inner, kernel

DIGITS, BITS = 3, 11
"""Digits that are looked at, and how wide each is."""

PLACE_BITS = 63 - DIGITS * BITS
"""What is left of a word for the place that a number came from."""

_ALL_BUT_SIGN = (1 << 63) - 1


@kernel
def by_leading_digits(numbers: Floats) -> Ints:
    """Places of numbers, lowest first, but for those that have the same leading digits: these stay as they came."""
    words = numbers.copy().view(np.int64)
    spare = np.empty_like(words)
    starts = np.zeros((DIGITS, 1 << BITS), dtype=np.int64)
    if len(words):
        _as_whole_numbers(words)
        _pack(words, words.min(), words.max(), starts)
    for digit in range(DIGITS):
        _deal(words, spare, starts[digit], PLACE_BITS + digit * BITS)
        words, spare = spare, words
    return words & ((1 << PLACE_BITS) - 1)


@inner
def _as_whole_numbers(bits: Ints) -> None:
    """Turn the bits of floats into whole numbers in the same order, half as large as they could be."""
    for i in range(len(bits)):
        bits[i] = (bits[i] ^ ((bits[i] >> 63) & _ALL_BUT_SIGN)) >> 1


@inner
def _pack(words: Ints, lowest: int, highest: int, starts: Ints) -> None:
    """Make a word of each number's leading digits and its place, and find where each digit's words will start."""
    shift = 0
    while (highest - lowest) >> shift >> (DIGITS * BITS) > 0:
        shift += 1
    for i in range(len(words)):
        number = (words[i] - lowest) >> shift
        words[i] = number << PLACE_BITS | i
        for digit in range(DIGITS):
            starts[digit, number >> (digit * BITS) & ((1 << BITS) - 1)] += 1
    for digit in range(DIGITS):
        start = 0
        for value in range(1 << BITS):
            count = starts[digit, value]
            starts[digit, value] = start
            start += count


@inner
def _deal(words: Ints, into: Ints, starts: Ints, shift: int) -> None:
    """Sort by one digit; words that are equal in it stay in order."""
    for i in range(len(words)):
        value = words[i] >> shift & ((1 << BITS) - 1)
        into[starts[value]] = words[i]
        starts[value] += 1

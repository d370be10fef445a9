/* Functions that CUDA itself defines. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "warp.h"

#define LONGEST_LINE 4096

static uint64_t argument(const struct warp *warp, const struct instruction *instruction, unsigned int lane,
                         uint32_t number) {
    const struct lane *state = &warp->lanes[lane];
    uint64_t bits = 0;
    if (number >= instruction->call->argument_count) return 0;
    struct slot slot = instruction->call->arguments[number];
    memcpy(&bits, state->memory + state->frames[state->depth].memory + slot.offset, slot.bytes < 8 ? slot.bytes : 8);
    return bits;
}

static void give_result(struct warp *warp, const struct instruction *instruction, unsigned int lane, uint64_t bits) {
    const struct lane *state = &warp->lanes[lane];
    if (instruction->call->result_count == 0) return;
    struct slot slot = instruction->call->results[0];
    memcpy(state->memory + state->frames[state->depth].memory + slot.offset, &bits, slot.bytes < 8 ? slot.bytes : 8);
}

/* Copies a text from the kernel's memory, byte by byte, as far as it is memory. */
static bool read_text(struct warp *warp, const struct instruction *instruction, unsigned int lane, uint64_t address,
                      char text[LONGEST_LINE]) {
    for (size_t i = 0; i < LONGEST_LINE - 1; i++) {
        const unsigned char *byte = warp_address(warp, instruction, lane, address + i, SPACE_GENERIC, 1);
        if (byte == NULL) return false;
        text[i] = (char)*byte;
        if (*byte == '\0') return true;
    }
    text[LONGEST_LINE - 1] = '\0';
    return true;
}

/* Formats one value by its own specifier, which has passed `specifier_length`. */
static int format_one(char *to, size_t room, const char *specifier, char conversion, bool is_long, uint64_t bits,
                      const char *text) {
    double number;
    memcpy(&number, &bits, sizeof number);
    _Pragma("GCC diagnostic push") _Pragma(
        "GCC diagnostic ignored \"-Wformat-nonliteral\"") if (strchr("fFeEgGaA", conversion) !=
                                                              NULL) return snprintf(to, room, specifier, number);
    if (conversion == 's') return snprintf(to, room, specifier, text);
    if (conversion == 'p') return snprintf(to, room, specifier, (void *)(uintptr_t)bits);
    if (is_long) return snprintf(to, room, specifier, (long long)bits);
    return snprintf(to, room, specifier, (int)bits);
    _Pragma("GCC diagnostic pop")
}

/* Bytes of a specifier behind '%' that C understands, or 0. Widths that are arguments themselves are not supported. */
static size_t specifier_length(const char *text) {
    size_t length = strspn(text, "-+ #0123456789.hlzjt");
    return length < 20 && text[length] != '\0' && strchr("diouxXcfFeEgGaAsp%", text[length]) != NULL ? length + 1 : 0;
}

static void print(struct warp *warp, const struct instruction *instruction, unsigned int lane) {
    char format[LONGEST_LINE], line[LONGEST_LINE], text[LONGEST_LINE];
    uint64_t values = argument(warp, instruction, lane, 1);
    size_t used = 0;
    if (!read_text(warp, instruction, lane, argument(warp, instruction, lane, 0), format)) return;
    for (const char *at = format; *at != '\0' && used < LONGEST_LINE - 1;) {
        size_t length = *at == '%' ? specifier_length(at + 1) : 0;
        if (length == 0 || at[length] == '%') {
            line[used++] = *at;
            at += length == 0 ? 1 : length + 1;
            continue;
        }
        char specifier[32] = "", conversion = at[length];
        bool is_long = memchr(at, 'l', length) != NULL || memchr(at, 'z', length) != NULL ||
                       memchr(at, 'j', length) != NULL || conversion == 'p';
        size_t bytes = is_long || strchr("fFeEgGaAsp", conversion) != NULL ? 8 : 4;
        size_t kept = 0;
        for (size_t i = 0; i < length; i++)
            if (strchr("hlzjt", at[i]) == NULL) specifier[kept++] = at[i];
        if (is_long && conversion != 'p' && strchr("diouxX", conversion) != NULL)
            memcpy(specifier + kept, "ll", 2), kept += 2;
        specifier[kept] = conversion;
        values = (values + bytes - 1) / bytes * bytes;
        const unsigned char *value = warp_address(warp, instruction, lane, values, SPACE_GENERIC, bytes);
        if (value == NULL) return;
        uint64_t bits = 0;
        memcpy(&bits, value, bytes);
        if (conversion == 's' && !read_text(warp, instruction, lane, bits, text)) return;
        int written = format_one(line + used, LONGEST_LINE - used, specifier, conversion, is_long, bits, text);
        used += written < 0 ? 0 : (size_t)written < LONGEST_LINE - used ? (size_t)written : LONGEST_LINE - used - 1;
        values += bytes;
        at += length + 1;
    }
    fwrite(line, 1, used, stdout);
    fflush(stdout);
    give_result(warp, instruction, lane, 1);
}

static void fail_assertion(struct warp *warp, const struct instruction *instruction, unsigned int lane) {
    char text[LONGEST_LINE], file[LONGEST_LINE];
    if (!read_text(warp, instruction, lane, argument(warp, instruction, lane, 0), text)) return;
    if (!read_text(warp, instruction, lane, argument(warp, instruction, lane, 1), file)) return;
    warp_fail(warp, instruction, PTX_ASSERTED, "%.60s:%u: assertion %.80s failed", file,
              (unsigned int)argument(warp, instruction, lane, 2), text);
}

void run_builtin(struct warp *warp, const struct instruction *instruction, const struct ptx_function *function,
                 uint32_t lanes) {
    unsigned int lane = (unsigned int)__builtin_ctz(lanes);
    switch (function->builtin) {
        case BUILTIN_PRINTF: print(warp, instruction, lane); break;
        case BUILTIN_ASSERT: fail_assertion(warp, instruction, lane); break;
        default:
            warp_fail(warp, instruction, PTX_UNSUPPORTED, "memory from within a kernel (%s) is not supported",
                      function->name);
    }
}

/* Moves, loads and stores. */
#include <stddef.h>

#include "operations.h"
#include "values.h"

static void move(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *from = source_values(warp, instruction->from[0]);
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, to[lane] = from[lane]);
}

plain_run find_move(void) { return move; }

/* A vector's elements side by side in one register, the first one lowest. */
static void pack(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    unsigned int width = 8 * type_bytes(instruction->type) / instruction->element_count;
    uint64_t mask = (UINT64_C(1) << width) - 1;
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, {
        uint64_t bits = 0;
        for (unsigned int i = 0; i < instruction->element_count; i++)
            bits |= (source_values(warp, instruction->element_sources[i])[lane] & mask) << (i * width);
        to[lane] = bits;
    });
}

plain_run find_pack(void) { return pack; }

static void unpack(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    unsigned int width = 8 * type_bytes(instruction->type) / instruction->element_count;
    uint64_t mask = (UINT64_C(1) << width) - 1;
    const uint64_t *from = source_values(warp, instruction->from[0]);
    FOR_LANES(lanes, {
        uint64_t bits = from[lane];
        for (unsigned int i = 0; i < instruction->element_count; i++)
            if (instruction->elements[i] != UINT32_MAX)
                warp->base[instruction->elements[i]][lane] = bits >> (i * width) & mask;
    });
}

plain_run find_unpack(void) { return unpack; }

/* Where a variable of the function itself is, in each lane's own memory. */
static void local_address(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    uint64_t *to = result_values(warp, instruction->to);
    FOR_LANES(lanes, {
        const struct lane *state = &warp->lanes[lane];
        to[lane] = (uint64_t)instruction->offset + state->frames[state->depth].memory;
    });
}

plain_run find_local_address(void) { return local_address; }

static uint64_t read_bits(const unsigned char *memory, enum type type) {
    uint64_t bits = 0;
    memcpy(&bits, memory, type_bytes(type));
    if (!type_is_signed(type)) return bits;
    unsigned int unused = 64 - 8 * type_bytes(type);
    return (uint64_t)((int64_t)(bits << unused) >> unused);
}

static void load(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    unsigned int count = instruction->element_count, bytes = type_bytes(instruction->type);
    for (unsigned int lane = 0; lane < LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        const unsigned char *memory =
            operand_address(warp, instruction, lane, (size_t)bytes * (count == 0 ? 1 : count));
        if (memory == NULL) return;
        if (count == 0) result_values(warp, instruction->to)[lane] = read_bits(memory, instruction->type);
        for (unsigned int i = 0; i < count; i++)
            if (instruction->elements[i] != UINT32_MAX)
                warp->base[instruction->elements[i]][lane] = read_bits(memory + i * bytes, instruction->type);
    }
}

plain_run find_load(void) { return load; }

static void store(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    unsigned int count = instruction->element_count, bytes = type_bytes(instruction->type);
    for (unsigned int lane = 0; lane < LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        unsigned char *memory = operand_address(warp, instruction, lane, (size_t)bytes * (count == 0 ? 1 : count));
        if (memory == NULL) return;
        if (count == 0) memcpy(memory, &source_values(warp, instruction->from[1])[lane], bytes);
        for (unsigned int i = 0; i < count; i++)
            memcpy(memory + i * bytes, &source_values(warp, instruction->element_sources[i])[lane], bytes);
    }
}

plain_run find_store(void) { return store; }

/* Fences and hints: here every lane sees at once what others write. */
static void nothing(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    (void)warp, (void)instruction, (void)lanes;
}

plain_run find_nothing(void) { return nothing; }

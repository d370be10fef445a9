/* From addresses to memory: whatever a kernel reads or writes must belong to somebody. */
#include <stdarg.h>
#include <stdio.h>

#include "warp.h"

void warp_fail(struct warp *warp, const struct instruction *instruction, enum ptx_result result, const char *format,
               ...) {
    struct block *block = warp->block;
    if (block->result != PTX_DONE) return;
    block->result = result;
    int used =
        snprintf(block->message, PTX_MESSAGE_BYTES, "kernel %.80s, PTX line %u, %s: ", ptx_name(block->launch->kernel),
                 instruction->line, instruction->name);
    if (used < 0 || used >= PTX_MESSAGE_BYTES) return;
    va_list values;
    va_start(values, format);
    vsnprintf(block->message + used, PTX_MESSAGE_BYTES - (size_t)used, format, values);
    va_end(values);
}

static bool in_range(uint64_t address, size_t bytes, uintptr_t begin, uintptr_t end) {
    return address >= begin && address < end && bytes <= end - address;
}

/* Memory of GPUs and pinned memory of the host, by their own addresses. */
static bool is_known(struct block *block, uint64_t address, size_t bytes) {
    for (unsigned int i = 0; i < REMEMBERED_RANGES; i++)
        if (in_range(address, bytes, block->remembered[i].begin, block->remembered[i].end)) return true;
    struct memory_range found;
    if (!block->launch->find((uintptr_t)address, &found.begin, &found.end)) return false;
    block->remembered[block->remembered_next++ % REMEMBERED_RANGES] = found;
    return in_range(address, bytes, found.begin, found.end);
}

unsigned char *warp_address(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                            uint64_t address, enum space space, size_t bytes) {
    struct block *block = warp->block;
    unsigned char *start = NULL;
    uint64_t room = 0;
    if (space == SPACE_SHARED) start = block->shared, room = block->shared_bytes;
    if (space == SPACE_LOCAL) start = warp->lanes[lane].memory, room = warp->memory_bytes;
    if (space == SPACE_PARAM)
        start = (unsigned char *)block->launch->arguments, room = block->launch->kernel->argument_bytes;
    if (address % bytes != 0 && (bytes & (bytes - 1)) == 0) {
        warp_fail(warp, instruction, PTX_MISALIGNED, "address %#llx is no multiple of %zu", (unsigned long long)address,
                  bytes);
        return NULL;
    }
    if (start != NULL && address < room && bytes <= room - address) return start + address;
    if (start == NULL) { /* a generic address may be any of these, too */
        uintptr_t shared = (uintptr_t)block->shared, local = (uintptr_t)warp->lanes[lane].memory,
                  arguments = (uintptr_t)block->launch->arguments;
        if (is_known(block, address, bytes) || in_range(address, bytes, shared, shared + block->shared_bytes) ||
            in_range(address, bytes, local, local + warp->memory_bytes) ||
            in_range(address, bytes, arguments, arguments + block->launch->kernel->argument_bytes))
            return (unsigned char *)(uintptr_t)address;
    }
    warp_fail(warp, instruction, PTX_ILLEGAL_ADDRESS, "address %#llx belongs to no memory of the program",
              (unsigned long long)address);
    return NULL;
}

unsigned char *operand_address(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                               size_t bytes) {
    uint64_t address = (uint64_t)instruction->offset;
    if (instruction->from[0].kind != SOURCE_NONE) address += source_values(warp, instruction->from[0])[lane];
    if (instruction->frame_relative) {
        const struct lane *state = &warp->lanes[lane];
        address += state->frames[state->depth].memory;
    }
    /* Addresses in spaces of their own may be held in registers of 32 bits. */
    if (instruction->space == SPACE_SHARED || instruction->space == SPACE_LOCAL || instruction->space == SPACE_PARAM)
        address = (uint32_t)address;
    return warp_address(warp, instruction, lane, address, instruction->space, bytes);
}

#include "arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)1 << 16)
#define ALIGNMENT 16

struct chunk {
    struct chunk *next;
    size_t used, room;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

struct arena {
    struct chunk *chunks;
};

static void *checked(void *memory) {
    if (memory != NULL) return memory;
    fputs("gpuyard: libcuda: no memory left to read PTX\n", stderr);
    abort();
}

struct arena *arena_new(void) { return checked(calloc(1, sizeof(struct arena))); }

void arena_free(struct arena *arena) {
    while (arena->chunks != NULL) {
        struct chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free(chunk);
    }
    free(arena);
}

void *arena_take(struct arena *arena, size_t count, size_t bytes) {
    size_t wanted = count > SIZE_MAX / 4 / (bytes + 1) ? SIZE_MAX / 2 : count * bytes;
    wanted = (wanted + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (arena->chunks == NULL || arena->chunks->room - arena->chunks->used < wanted) {
        size_t room = wanted > CHUNK ? wanted : CHUNK;
        struct chunk *chunk = checked(calloc(1, sizeof *chunk + room));
        chunk->room = room;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *taken = arena->chunks->bytes + arena->chunks->used;
    arena->chunks->used += wanted;
    return taken;
}

char *arena_text(struct arena *arena, const char *text, size_t length) {
    char *copy = arena_take(arena, length + 1, 1);
    memcpy(copy, text, length);
    return copy;
}

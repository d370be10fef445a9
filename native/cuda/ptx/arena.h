/* Memory that is freed all at once. */
#ifndef GPUYARD_PTX_ARENA_H
#define GPUYARD_PTX_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *arena);

/* Returns zeros. Without memory the whole process ends: half-read programs help nobody. */
void *arena_take(struct arena *arena, size_t count, size_t bytes);
char *arena_text(struct arena *arena, const char *text, size_t length);

#endif

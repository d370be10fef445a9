/* A segment that lives as long as processes are members of it: made by the first, removed by the last. */
#ifndef GPUYARD_MEMBERS_H
#define GPUYARD_MEMBERS_H

#include "segment.h"

/* In every such file: locked while it is made or removed; read-locked by each member. */
#define MAKING_BYTE 0
#define MEMBER_BYTE 8

/* What is in the file. `asked` is what `members_open` was given. */
struct segment_kind {
    int (*make)(struct gpuyard_segment *segment, const void *asked);
    bool (*is_sound)(const struct gpuyard_segment *segment);
    int (*check)(const struct gpuyard_segment *segment, const void *asked); /* may be NULL: whatever it holds is right */
};

/* Becomes a member of the segment at a path, or makes it if it has none. */
int members_open(const char *path, const struct segment_kind *kind, const void *asked, struct gpuyard_segment **segment);

/* Becomes a member of one that has some; GPUYARD_ERROR_NO_NODE if it has none. */
int members_join(const char *path, const struct segment_kind *kind, struct gpuyard_segment **segment);

/* Opens one that has members without being one; a file without any is removed. */
int members_watch(const char *path, const struct segment_kind *kind, struct gpuyard_segment **segment);

/* Is no longer a member; the last to go removes the file. */
void members_leave(struct gpuyard_segment *segment);

#endif

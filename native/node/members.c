/* Who uses a segment is said by locks, so a file that its users left behind, however they ended, is known as stale. */
#include "members.h"

#include <errno.h>

static bool has_members(const struct gpuyard_segment *segment) {
    return gpuyard_segment_held_elsewhere(segment, MEMBER_BYTE) == 1;
}

/* Maps a segment that has members, if it is one of this version. */
static int map_live(struct gpuyard_segment *segment, const struct segment_kind *kind) {
    if (!segment_is_current(segment) || !has_members(segment)) return GPUYARD_ERROR_NO_NODE;
    int error = gpuyard_segment_map(segment);
    return error != GPUYARD_OK || kind->is_sound(segment) ? error : GPUYARD_ERROR_VERSION;
}

static int become_member(struct gpuyard_segment *segment) {
    return gpuyard_segment_hold(segment, MEMBER_BYTE, true) == GPUYARD_OK ? GPUYARD_OK : GPUYARD_ERROR_SYSTEM;
}

/* Makes or joins it, under its lock; 1 if there was a file that nobody uses, which is gone now. */
static int make_or_join(struct gpuyard_segment *segment, const struct segment_kind *kind, const void *asked) {
    if (!segment_is_current(segment)) return 1;
    int error;
    if (segment_is_empty(segment)) {
        error = kind->make(segment, asked);
    } else {
        error = map_live(segment, kind);
        if (error == GPUYARD_OK && kind->check != NULL) error = kind->check(segment, asked);
    }
    if (error == GPUYARD_ERROR_NO_NODE) {
        segment_unlink(segment); /* whoever still has it mapped keeps what is there */
        return 1;
    }
    return error == GPUYARD_OK ? become_member(segment) : error;
}

static int open_once(const char *path, const struct segment_kind *kind, const void *asked,
                     struct gpuyard_segment **segment) {
    int error = gpuyard_segment_open(path, true, segment);
    if (error != GPUYARD_OK) return error;
    error = segment_lock(*segment, MAKING_BYTE);
    if (error == GPUYARD_OK) {
        error = make_or_join(*segment, kind, asked);
        int reason = errno;
        segment_unlock(*segment, MAKING_BYTE);
        errno = reason;
    }
    if (error != GPUYARD_OK) gpuyard_segment_destroy(*segment);
    return error;
}

int members_open(const char *path, const struct segment_kind *kind, const void *asked, struct gpuyard_segment **segment) {
    int error;
    do error = open_once(path, kind, asked, segment);
    while (error == 1);
    return error;
}

static int open_present(const char *path, struct gpuyard_segment **segment) {
    int error = gpuyard_segment_open(path, false, segment);
    return error == GPUYARD_ERROR_ABSENT ? GPUYARD_ERROR_NO_NODE : error;
}

int members_join(const char *path, const struct segment_kind *kind, struct gpuyard_segment **segment) {
    int error = open_present(path, segment);
    if (error != GPUYARD_OK) return error;
    error = segment_lock(*segment, MAKING_BYTE);
    if (error == GPUYARD_OK) {
        error = map_live(*segment, kind);
        if (error == GPUYARD_OK) error = become_member(*segment);
        segment_unlock(*segment, MAKING_BYTE);
    }
    if (error != GPUYARD_OK) gpuyard_segment_destroy(*segment);
    return error;
}

static void remove_if_unused(struct gpuyard_segment *segment) {
    if (segment_lock(segment, MAKING_BYTE) != GPUYARD_OK) return;
    if (segment_is_current(segment) && !has_members(segment)) segment_unlink(segment);
    segment_unlock(segment, MAKING_BYTE);
}

int members_watch(const char *path, const struct segment_kind *kind, struct gpuyard_segment **segment) {
    int error = open_present(path, segment);
    if (error != GPUYARD_OK) return error;
    remove_if_unused(*segment);
    error = map_live(*segment, kind);
    if (error != GPUYARD_OK) gpuyard_segment_destroy(*segment);
    return error;
}

void members_leave(struct gpuyard_segment *segment) {
    gpuyard_segment_drop(segment, MEMBER_BYTE);
    remove_if_unused(segment);
    gpuyard_segment_close(segment);
}

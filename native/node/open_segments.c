/* A forked child has copies of its parent's files, and with them of its locks, which would outlive the parent. It lets
 * go of them at once: two processes cannot be one client. */
#define _GNU_SOURCE
#include "open_segments.h"

#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct gpuyard_segment *first;

static void abandon(struct gpuyard_segment *segment, int why) {
    const int zeros = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    segment->state = why;
    if (segment->memory != NULL) mmap(segment->memory, segment->length, PROT_READ | PROT_WRITE, zeros, -1, 0);
    close(segment->file);
    segment->file = -1;
}

static void in_child(void) {
    for (struct gpuyard_segment *each = first; each != NULL; each = each->next) {
        pthread_mutex_init(&each->mutex, NULL); /* whoever held it is a thread of the parent */
        abandon(each, GPUYARD_ERROR_FORKED);
    }
    first = NULL;
    forks_release();
}

/* Locks that are held during calls of the ground must be taken before its own when a process forks: whoever has such a
 * lock registers for forks later than this, which is what a higher number of a constructor means. */
__attribute__((constructor(GPUYARD_FORKS_FIRST))) static void follow_forks(void) {
    pthread_atfork(forks_hold, forks_release, in_child);
}

void forks_hold(void) { pthread_mutex_lock(&list_mutex); }

void forks_release(void) { pthread_mutex_unlock(&list_mutex); }

void open_segments_add(struct gpuyard_segment *segment) {
    segment->next = first;
    first = segment;
}

void open_segments_abandon(struct gpuyard_segment *segment) {
    struct gpuyard_segment **place = &first;
    while (*place != NULL && *place != segment) place = &(*place)->next;
    if (*place != NULL) *place = segment->next;
    abandon(segment, GPUYARD_ERROR_CLOSED);
}

/* Every segment that this process has open, so that a forked child can let go of what it inherits. */
#ifndef GPUYARD_OPEN_SEGMENTS_H
#define GPUYARD_OPEN_SEGMENTS_H

#include <pthread.h>

#include "segment.h"

struct gpuyard_segment {
    char *path;
    int file;
    _Atomic int state; /* GPUYARD_OK, or why it cannot be used */
    char *memory;
    size_t length;
    pthread_mutex_t mutex; /* threads share an opening and so its locks: this one is between them */
    struct gpuyard_segment *next;
};

/* No fork happens from one call to the other: what is opened in between is in the list when one does. */
void forks_hold(void);
void forks_release(void);

/* Both while forks are held. The second drops the file with its locks, and puts zeros where its memory was. */
void open_segments_add(struct gpuyard_segment *segment);
void open_segments_abandon(struct gpuyard_segment *segment);

#endif

/* A shared file. Locks are the kernel's, on an opening of the file, so they end with their process in any case. */
#define _GNU_SOURCE
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "open_segments.h"

static int failed(int error, int reason) {
    errno = reason;
    return error;
}

static int open_own(const char *path, bool create) {
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
    if (file < 0) return errno == ENOENT ? GPUYARD_ERROR_ABSENT : GPUYARD_ERROR_OPEN;
    struct stat about;
    int error = GPUYARD_OK;
    if (fstat(file, &about) != 0) error = GPUYARD_ERROR_OPEN;
    else if (about.st_uid != getuid()) error = GPUYARD_ERROR_OWNER;
    else if (!S_ISREG(about.st_mode)) error = failed(GPUYARD_ERROR_OPEN, EINVAL);
    if (error == GPUYARD_OK) return file;
    close(file);
    return error;
}

static int open_listed(struct gpuyard_segment *segment, bool create) {
    forks_hold();
    segment->file = open_own(segment->path, create);
    if (segment->file >= 0) open_segments_add(segment);
    forks_release();
    return segment->file < 0 ? segment->file : GPUYARD_OK;
}

int gpuyard_segment_open(const char *path, bool create, struct gpuyard_segment **segment) {
    struct gpuyard_segment *made = calloc(1, sizeof *made);
    char *copy = strdup(path);
    int error = GPUYARD_ERROR_SYSTEM;
    if (made != NULL && copy != NULL) {
        made->path = copy;
        pthread_mutex_init(&made->mutex, NULL);
        error = open_listed(made, create);
    }
    if (error == GPUYARD_OK) {
        *segment = made;
    } else {
        free(made);
        free(copy);
    }
    return error;
}

int gpuyard_segment_allocate(struct gpuyard_segment *segment, uint64_t length) {
    int reason = posix_fallocate(segment->file, 0, (off_t)length);
    if (reason != 0) {
        segment_unlink(segment);
        return failed(GPUYARD_ERROR_ROOM, reason);
    }
    return gpuyard_segment_map(segment);
}

/* A mapping keeps the opening of the file that it was made from, and so its locks: see `abandon`, which ends both. */
int gpuyard_segment_map(struct gpuyard_segment *segment) {
    struct stat about;
    if (fstat(segment->file, &about) != 0) return GPUYARD_ERROR_OPEN;
    if (about.st_size == 0 || segment->memory != NULL) return GPUYARD_OK;
    void *memory = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, segment->file, 0);
    if (memory == MAP_FAILED) return GPUYARD_ERROR_OPEN;
    segment->memory = memory;
    segment->length = (size_t)about.st_size;
    return GPUYARD_OK;
}

void *gpuyard_segment_memory(const struct gpuyard_segment *segment) { return segment->memory; }

uint64_t gpuyard_segment_length(const struct gpuyard_segment *segment) { return segment->length; }

int gpuyard_segment_state(const struct gpuyard_segment *segment) { return segment->state; }

/* For locks that belong to an opening, l_pid must be zero. */
static int lock_byte(const struct gpuyard_segment *segment, int command, short kind, uint64_t byte) {
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
    return fcntl(segment->file, command, &lock) == 0 ? lock.l_type : -1;
}

int gpuyard_segment_hold(struct gpuyard_segment *segment, uint64_t byte, bool shared) {
    if (segment->state != GPUYARD_OK) return segment->state;
    if (lock_byte(segment, F_OFD_SETLK, shared ? F_RDLCK : F_WRLCK, byte) >= 0) return GPUYARD_OK;
    return errno == EAGAIN || errno == EACCES ? 1 : GPUYARD_ERROR_SYSTEM;
}

int gpuyard_segment_drop(struct gpuyard_segment *segment, uint64_t byte) {
    if (segment->state != GPUYARD_OK) return segment->state;
    return lock_byte(segment, F_OFD_SETLK, F_UNLCK, byte) >= 0 ? GPUYARD_OK : GPUYARD_ERROR_SYSTEM;
}

int gpuyard_segment_held_elsewhere(const struct gpuyard_segment *segment, uint64_t byte) {
    if (segment->state != GPUYARD_OK) return segment->state;
    int found = lock_byte(segment, F_OFD_GETLK, F_WRLCK, byte);
    return found < 0 ? GPUYARD_ERROR_SYSTEM : found != F_UNLCK;
}

int segment_lock(struct gpuyard_segment *segment, uint64_t byte) {
    pthread_mutex_lock(&segment->mutex);
    int error = segment->state;
    while (error == GPUYARD_OK && lock_byte(segment, F_OFD_SETLKW, F_WRLCK, byte) < 0)
        if (errno != EINTR) error = GPUYARD_ERROR_SYSTEM;
    if (error != GPUYARD_OK) pthread_mutex_unlock(&segment->mutex);
    return error;
}

void segment_unlock(struct gpuyard_segment *segment, uint64_t byte) {
    lock_byte(segment, F_OFD_SETLK, F_UNLCK, byte);
    pthread_mutex_unlock(&segment->mutex);
}

bool segment_is_current(const struct gpuyard_segment *segment) {
    struct stat here, there;
    return fstat(segment->file, &here) == 0 && stat(segment->path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

bool segment_is_empty(const struct gpuyard_segment *segment) {
    struct stat about;
    return fstat(segment->file, &about) == 0 && about.st_size == 0;
}

void segment_unlink(const struct gpuyard_segment *segment) { unlink(segment->path); }

void gpuyard_segment_close(struct gpuyard_segment *segment) {
    pthread_mutex_lock(&segment->mutex);
    if (segment->state == GPUYARD_OK) {
        forks_hold();
        open_segments_abandon(segment);
        forks_release();
    }
    pthread_mutex_unlock(&segment->mutex);
}

void gpuyard_segment_destroy(struct gpuyard_segment *segment) {
    gpuyard_segment_close(segment);
    if (segment->memory != NULL) munmap(segment->memory, segment->length);
    pthread_mutex_destroy(&segment->mutex);
    free(segment->path);
    free(segment);
}

#include "handles.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define ALIVE 0x67707500u
#define LEAST_ADDRESS 4096 /* below are no objects, but numbers that some handles may have instead */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *spare[HANDLE_KINDS];

void handle_mark(struct handle *handle, enum handle_kind kind) { handle->mark = ALIVE + kind; }

void handle_unmark(struct handle *handle) { handle->mark = 0; }

void *handle_new(enum handle_kind kind, size_t bytes) {
    pthread_mutex_lock(&lock);
    struct handle *handle = spare[kind];
    if (handle != NULL) spare[kind] = handle->next;
    pthread_mutex_unlock(&lock);
    if (handle == NULL) handle = calloc(1, bytes);
    if (handle != NULL) handle_mark(handle, kind);
    return handle;
}

bool handle_is(const void *object, enum handle_kind kind) {
    return (uintptr_t)object >= LEAST_ADDRESS && (uintptr_t)object % _Alignof(struct handle) == 0 &&
           ((const struct handle *)object)->mark == ALIVE + kind;
}

void handle_drop(void *object) {
    struct handle *handle = object;
    pthread_mutex_lock(&lock);
    unsigned int kind = handle->mark - ALIVE;
    handle->mark = 0;
    handle->next = spare[kind];
    spare[kind] = handle;
    pthread_mutex_unlock(&lock);
}

/* A hash table with chains, under one lock: allocating takes far longer than that. */
#define _GNU_SOURCE
#include "allocations.h"

#include <stdlib.h>
#include <string.h>

#define CHAINS 4096

struct allocation {
    enum allocation_kind kind;
    uint64_t handle, number, bytes, users;
    struct gated_gpu *gpu;
    CUcontext context;
    struct allocation *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *chains[CHAINS];
static uint64_t last_number;

/* Addresses are multiples of 256 or more. */
static struct allocation **place_of(enum allocation_kind kind, uint64_t handle) {
    struct allocation **place = &chains[(handle >> 9 ^ handle >> 21 ^ handle) % CHAINS];
    while (*place != NULL && ((*place)->kind != kind || (*place)->handle != handle)) place = &(*place)->next;
    return place;
}

static void take_out(struct allocation **place) {
    struct allocation *gone = *place;
    *place = gone->next;
    gpuyard_gate_release(gone->gpu->client, gone->bytes);
    free(gone);
}

void allocations_forget(void) {
    pthread_mutex_init(&mutex, NULL);
    memset(chains, 0, sizeof chains); /* freeing needs a lock that a thread of the parent may have held */
}

void allocation_add(enum allocation_kind kind, uint64_t handle, struct gated_gpu *gpu, CUcontext context, uint64_t bytes) {
    struct allocation *made = malloc(sizeof *made);
    if (made == NULL) return;
    pthread_mutex_lock(&mutex);
    struct allocation **place = place_of(kind, handle);
    if (*place != NULL) take_out(place); /* the driver has used the handle again: it was given back without our knowing */
    place = place_of(kind, handle);
    *made = (struct allocation){kind, handle, ++last_number, bytes, 1, gpu, context, *place};
    *place = made;
    pthread_mutex_unlock(&mutex);
}

void allocation_share(enum allocation_kind kind, uint64_t handle) {
    pthread_mutex_lock(&mutex);
    struct allocation *found = *place_of(kind, handle);
    if (found != NULL) found->users++;
    pthread_mutex_unlock(&mutex);
}

uint64_t allocation_number(enum allocation_kind kind, uint64_t handle) {
    pthread_mutex_lock(&mutex);
    const struct allocation *found = *place_of(kind, handle);
    uint64_t number = found == NULL ? 0 : found->number;
    pthread_mutex_unlock(&mutex);
    return number;
}

void allocation_remove(enum allocation_kind kind, uint64_t handle, uint64_t number) {
    pthread_mutex_lock(&mutex);
    struct allocation **place = place_of(kind, handle);
    if (*place != NULL && (*place)->number == number && --(*place)->users == 0) take_out(place);
    pthread_mutex_unlock(&mutex);
}

void allocations_end(CUcontext context) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < CHAINS; i++) {
        struct allocation **place = &chains[i];
        while (*place != NULL) {
            if ((*place)->context == context) take_out(place);
            else place = &(*place)->next;
        }
    }
    pthread_mutex_unlock(&mutex);
}

/* A group, from being made or found until its last process goes. */
#define _GNU_SOURCE
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "futex.h"

#define MOST_GROUP_NAME 64

uint64_t monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Groups have other names than nodes. */
const char *gpuyard_gate_error_text(int error) {
    if (error == GPUYARD_ERROR_NAME) return "a group's name is 1 to 64 letters, digits, '.', '_' and '-'";
    return gpuyard_error_text(error);
}

/* No node's file begins like that: after "gpuyard-" they have the user's number. */
int gpuyard_gate_path(const char *group, char path[GPUYARD_PATH_BYTES]) {
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(group);
    if (length == 0 || length > MOST_GROUP_NAME || strspn(group, plain) != length) return GPUYARD_ERROR_NAME;
    char folder[GPUYARD_PATH_BYTES];
    int error = gpuyard_folder(folder);
    if (error != GPUYARD_OK) return error;
    int written = snprintf(path, GPUYARD_PATH_BYTES, "%s/gpuyard-gate-%u-%s", folder, (unsigned int)getuid(), group);
    return written < GPUYARD_PATH_BYTES ? GPUYARD_OK : GPUYARD_ERROR_NAME;
}

static int make_group(struct gpuyard_segment *segment, const void *asked) {
    (void)asked;
    int error = gpuyard_segment_allocate(segment, sizeof(struct group_record));
    if (error != GPUYARD_OK) return error;
    struct group_record *group = gpuyard_segment_memory(segment);
    group->version = GATE_VERSION;
    group->length = sizeof *group;
    group->magic = GATE_MAGIC;
    return GPUYARD_OK;
}

static bool is_sound(const struct gpuyard_segment *segment) {
    const struct group_record *group = gpuyard_segment_memory(segment);
    return group != NULL && gpuyard_segment_length(segment) == sizeof *group && group->magic == GATE_MAGIC &&
           group->version == GATE_VERSION && group->length == sizeof *group;
}

static const struct segment_kind group_kind = {.make = make_group, .is_sound = is_sound};

static int hold_open(struct gpuyard_segment *segment, struct gpuyard_gate **gate) {
    struct gpuyard_gate *made = calloc(1, sizeof *made);
    if (made == NULL) {
        members_leave(segment);
        gpuyard_segment_destroy(segment);
        return GPUYARD_ERROR_SYSTEM;
    }
    made->segment = segment;
    made->record = gpuyard_segment_memory(segment);
    *gate = made;
    return GPUYARD_OK;
}

int gpuyard_gate_open(const char *group, struct gpuyard_gate **gate) {
    char path[GPUYARD_PATH_BYTES];
    struct gpuyard_segment *segment;
    int error = gpuyard_gate_path(group, path);
    if (error == GPUYARD_OK) error = members_open(path, &group_kind, NULL, &segment);
    return error == GPUYARD_OK ? hold_open(segment, gate) : error;
}

int gpuyard_gate_watch(const char *group, struct gpuyard_gate **gate) {
    char path[GPUYARD_PATH_BYTES];
    struct gpuyard_segment *segment;
    int error = gpuyard_gate_path(group, path);
    if (error == GPUYARD_OK) error = members_watch(path, &group_kind, &segment);
    return error == GPUYARD_OK ? hold_open(segment, gate) : error;
}

int gpuyard_gate_state(const struct gpuyard_gate *gate) { return gpuyard_segment_state(gate->segment); }

int gpuyard_gate_close(struct gpuyard_gate *gate) {
    int error = gpuyard_gate_state(gate);
    if (error != GPUYARD_OK) return error;
    for (struct gpuyard_gate_client *client = gate->clients; client != NULL; client = client->next)
        gpuyard_gate_disconnect(client);
    members_leave(gate->segment);
    return GPUYARD_OK;
}

void gpuyard_gate_destroy(struct gpuyard_gate *gate) {
    gpuyard_gate_close(gate);
    gpuyard_segment_destroy(gate->segment);
    for (struct gpuyard_gate_client *client = gate->clients, *next; client != NULL; client = next) {
        next = client->next;
        free(client);
    }
    free(gate);
}

uint32_t gpuyard_gate_changes(const struct gpuyard_gate *gate) { return gate->record->changes; }

int gpuyard_gate_await_change(struct gpuyard_gate *gate, uint32_t seen, uint64_t most_ns) {
    futex_wait(&gate->record->changes, seen, most_ns);
    return gpuyard_gate_state(gate);
}

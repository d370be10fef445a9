/* An emulated machine, from being made or found until its last process goes. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "find.h"
#include "make.h"
#include "node_handle.h"

static bool is_attached(const struct gpuyard_segment *segment) {
    return gpuyard_segment_held_elsewhere(segment, ATTACHED_BYTE) == 1;
}

/* Maps a segment that somebody is attached to, if it is one of this version. */
static int map_live(struct gpuyard_segment *segment) {
    if (!segment_is_current(segment) || !is_attached(segment)) return GPUYARD_ERROR_NO_NODE;
    int error = gpuyard_segment_map(segment);
    return error != GPUYARD_OK || is_sound(segment) ? error : GPUYARD_ERROR_VERSION;
}

/* Deletes the file unless a process is attached to it. */
static void remove_if_unused(struct gpuyard_segment *segment) {
    if (segment_lock(segment, MAKING_BYTE) != GPUYARD_OK) return;
    if (segment_is_current(segment) && !is_attached(segment)) segment_unlink(segment);
    segment_unlock(segment, MAKING_BYTE);
}

/* What a process holds of a node in a segment that is mapped. */
static int take(struct gpuyard_segment *segment, struct gpuyard_node **node) {
    struct node_record *record = gpuyard_segment_memory(segment);
    uint64_t gpus = record->about.gpu_count;
    struct gpuyard_node *made = calloc(1, sizeof *made + gpus * sizeof *made->gpus);
    if (made == NULL) return GPUYARD_ERROR_SYSTEM;
    made->segment = segment;
    made->about = record->about;
    made->about.name[sizeof made->about.name - 1] = '\0';
    for (uint64_t gpu = 0; gpu < gpus; gpu++)
        made->gpus[gpu] = (struct shared_gpu){.segment = segment, .record = &record->gpus[gpu], .node = &made->about};
    *node = made;
    return GPUYARD_OK;
}

static int take_attached(struct gpuyard_segment *segment, struct gpuyard_node **node) {
    int error = gpuyard_segment_hold(segment, ATTACHED_BYTE, true);
    return error == GPUYARD_OK ? take(segment, node) : error;
}

/* Makes or joins a node, under its lock; 1 if there was a file that nobody uses, which is gone now. */
static int make_or_join(struct gpuyard_segment *segment, const struct gpuyard_description *asked,
                        const struct gpuyard_gpu *gpus, struct gpuyard_node **node) {
    if (!segment_is_current(segment)) return 1;
    int error;
    if (segment_is_empty(segment)) {
        error = make_node(segment, asked, gpus);
    } else {
        error = map_live(segment);
        if (error == GPUYARD_OK) error = check_same(segment, asked, gpus);
    }
    if (error == GPUYARD_ERROR_NO_NODE) {
        segment_unlink(segment); /* whoever still has it mapped keeps what is there */
        return 1;
    }
    return error == GPUYARD_OK ? take_attached(segment, node) : error;
}

int gpuyard_open(const char *name, const struct gpuyard_gpu *gpus, unsigned int gpu_count, double speed,
                 const struct gpuyard_sharing *sharing, struct gpuyard_node **node) {
    char path[GPUYARD_PATH_BYTES];
    int error = gpuyard_path(name, path);
    if (error != GPUYARD_OK) return error;
    if (gpu_count == 0) return GPUYARD_ERROR_NO_GPUS;
    if (!(speed > 0) || !isfinite(speed)) return GPUYARD_ERROR_SPEED;
    if (gpuyard_policy_name(sharing->policy) == NULL) return GPUYARD_ERROR_POLICY;
    struct gpuyard_description asked = description_of(name, gpu_count, speed, sharing);
    do {
        struct gpuyard_segment *segment;
        error = gpuyard_segment_open(path, true, &segment);
        if (error != GPUYARD_OK) return error;
        error = segment_lock(segment, MAKING_BYTE);
        if (error == GPUYARD_OK) {
            error = make_or_join(segment, &asked, gpus, node);
            int reason = errno;
            segment_unlock(segment, MAKING_BYTE);
            errno = reason;
        }
        if (error != GPUYARD_OK) gpuyard_segment_destroy(segment);
    } while (error == 1);
    return error;
}

int gpuyard_attach(const char *name, struct gpuyard_node **node) {
    char path[GPUYARD_PATH_BYTES];
    struct gpuyard_segment *segment;
    int error = find_path(name, path);
    if (error == GPUYARD_OK) error = gpuyard_segment_open(path, false, &segment);
    if (error != GPUYARD_OK) return error == GPUYARD_ERROR_ABSENT ? GPUYARD_ERROR_NO_NODE : error;
    error = segment_lock(segment, MAKING_BYTE);
    if (error == GPUYARD_OK) {
        error = map_live(segment);
        if (error == GPUYARD_OK) error = take_attached(segment, node);
        segment_unlock(segment, MAKING_BYTE);
    }
    if (error != GPUYARD_OK) gpuyard_segment_destroy(segment);
    return error;
}

/* Opens the file of a live node; that of a dead one is removed. */
static int watch_file(const char *path, struct gpuyard_segment **segment) {
    int error = gpuyard_segment_open(path, false, segment);
    if (error != GPUYARD_OK) return error == GPUYARD_ERROR_ABSENT ? GPUYARD_ERROR_NO_NODE : error;
    remove_if_unused(*segment);
    error = map_live(*segment);
    if (error != GPUYARD_OK) gpuyard_segment_destroy(*segment);
    return error;
}

int read_live(const char *path, struct gpuyard_description *about) {
    struct gpuyard_segment *segment;
    int error = watch_file(path, &segment);
    if (error != GPUYARD_OK) return error;
    *about = ((const struct node_record *)gpuyard_segment_memory(segment))->about;
    about->name[sizeof about->name - 1] = '\0';
    gpuyard_segment_destroy(segment);
    return GPUYARD_OK;
}

int gpuyard_watch(const char *name, struct gpuyard_node **node) {
    char path[GPUYARD_PATH_BYTES];
    struct gpuyard_segment *segment;
    int error = find_path(name, path);
    if (error == GPUYARD_OK) error = watch_file(path, &segment);
    if (error != GPUYARD_OK) return error;
    error = take(segment, node);
    if (error != GPUYARD_OK) gpuyard_segment_destroy(segment);
    return error;
}

bool gpuyard_is_current(const struct gpuyard_node *node) {
    return gpuyard_segment_state(node->segment) == GPUYARD_OK && segment_is_current(node->segment);
}

int gpuyard_close(struct gpuyard_node *node) {
    int error = gpuyard_segment_state(node->segment);
    if (error != GPUYARD_OK) return error;
    for (struct gpuyard_client *client = node->clients; client != NULL; client = client->next)
        gpuyard_disconnect(client);
    gpuyard_segment_drop(node->segment, ATTACHED_BYTE);
    remove_if_unused(node->segment);
    gpuyard_segment_close(node->segment);
    return GPUYARD_OK;
}

void gpuyard_destroy(struct gpuyard_node *node) {
    gpuyard_close(node);
    gpuyard_segment_destroy(node->segment);
    for (struct gpuyard_client *client = node->clients, *next; client != NULL; client = next) {
        next = client->next;
        free(client);
    }
    free(node);
}

int gpuyard_describe(const struct gpuyard_node *node, struct gpuyard_description *description) {
    *description = node->about;
    return GPUYARD_OK;
}

int gpuyard_describe_gpu(const struct gpuyard_node *node, unsigned int gpu, struct gpuyard_gpu *about,
                         char uuid[GPUYARD_UUID_BYTES]) {
    int error = gpuyard_segment_state(node->segment);
    if (error != GPUYARD_OK) return error;
    if (gpu >= node->about.gpu_count) return GPUYARD_ERROR_NO_SUCH_GPU;
    *about = node->gpus[gpu].record->about;
    about->key[sizeof about->key - 1] = about->name[sizeof about->name - 1] = '\0';
    memcpy(uuid, node->gpus[gpu].record->uuid, GPUYARD_UUID_BYTES);
    uuid[GPUYARD_UUID_BYTES - 1] = '\0';
    return GPUYARD_OK;
}

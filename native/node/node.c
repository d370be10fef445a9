/* An emulated machine, from being made or found until its last process goes. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "find.h"
#include "make.h"
#include "members.h"
#include "node_handle.h"

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

/* The same of one that this process is a member of, or has only opened; if that fails it lets go of it. */
static int take_opened(struct gpuyard_segment *segment, struct gpuyard_node **node) {
    int error = take(segment, node);
    if (error == GPUYARD_OK) return GPUYARD_OK;
    members_leave(segment);
    gpuyard_segment_destroy(segment);
    return error;
}

struct asked_node {
    struct gpuyard_description about;
    const struct gpuyard_gpu *gpus;
};

static int make_asked(struct gpuyard_segment *segment, const void *asked) {
    const struct asked_node *node = asked;
    return make_node(segment, &node->about, node->gpus);
}

static int check_asked(const struct gpuyard_segment *segment, const void *asked) {
    const struct asked_node *node = asked;
    return check_same(segment, &node->about, node->gpus);
}

static const struct segment_kind node_kind = {.make = make_asked, .is_sound = is_sound, .check = check_asked};

int gpuyard_open(const char *name, const struct gpuyard_gpu *gpus, unsigned int gpu_count, double speed,
                 const struct gpuyard_sharing *sharing, struct gpuyard_node **node) {
    char path[GPUYARD_PATH_BYTES];
    int error = gpuyard_path(name, path);
    if (error != GPUYARD_OK) return error;
    if (gpu_count == 0) return GPUYARD_ERROR_NO_GPUS;
    if (!(speed > 0) || !isfinite(speed)) return GPUYARD_ERROR_SPEED;
    if (gpuyard_policy_name(sharing->policy) == NULL) return GPUYARD_ERROR_POLICY;
    const struct asked_node asked = {description_of(name, gpu_count, speed, sharing), gpus};
    struct gpuyard_segment *segment;
    error = members_open(path, &node_kind, &asked, &segment);
    return error == GPUYARD_OK ? take_opened(segment, node) : error;
}

int gpuyard_attach(const char *name, struct gpuyard_node **node) {
    char path[GPUYARD_PATH_BYTES];
    struct gpuyard_segment *segment;
    int error = find_path(name, path);
    if (error == GPUYARD_OK) error = members_join(path, &node_kind, &segment);
    return error == GPUYARD_OK ? take_opened(segment, node) : error;
}

int read_live(const char *path, struct gpuyard_description *about) {
    struct gpuyard_segment *segment;
    int error = members_watch(path, &node_kind, &segment);
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
    if (error == GPUYARD_OK) error = members_watch(path, &node_kind, &segment);
    return error == GPUYARD_OK ? take_opened(segment, node) : error;
}

bool gpuyard_is_current(const struct gpuyard_node *node) {
    return gpuyard_segment_state(node->segment) == GPUYARD_OK && segment_is_current(node->segment);
}

int gpuyard_close(struct gpuyard_node *node) {
    int error = gpuyard_segment_state(node->segment);
    if (error != GPUYARD_OK) return error;
    for (struct gpuyard_client *client = node->clients; client != NULL; client = client->next)
        gpuyard_disconnect(client);
    members_leave(node->segment);
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

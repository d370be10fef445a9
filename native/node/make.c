/* A node's file, written once when the node is made, and held against what a process asks for. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "make.h"

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* FNV-1a. */
static uint64_t hash(uint64_t seed, const char *text) {
    for (; *text != '\0'; text++) seed = (seed ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return seed;
}

/* A unique name, the same whenever the same user makes the same node: version 8 of RFC 9562, whose bits are free. */
static void write_uuid(char uuid[GPUYARD_UUID_BYTES], const char *node, unsigned int gpu) {
    char text[256];
    snprintf(text, sizeof text, "gpuyard %u %s %u", (unsigned int)getuid(), node, gpu);
    uint64_t high = hash(UINT64_C(0xcbf29ce484222325), text), low = hash(high, text);
    snprintf(uuid, GPUYARD_UUID_BYTES, "GPU-%08x-%04x-8%03x-%04x-%012llx", (unsigned int)(high >> 32),
             (unsigned int)(high >> 16 & 0xffff), (unsigned int)(high & 0xfff),
             (unsigned int)(low >> 48 & 0x3fff) | 0x8000, (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}

struct gpuyard_description description_of(const char *name, unsigned int gpu_count, double speed,
                                          const struct gpuyard_sharing *sharing) {
    struct gpuyard_description about = {
        .created = seconds(CLOCK_REALTIME),
        .origin = seconds(CLOCK_MONOTONIC),
        .speed = speed,
        .sharing = *sharing,
        .gpu_count = gpu_count,
    };
    snprintf(about.name, sizeof about.name, "%s", name);
    return about;
}

int make_node(struct gpuyard_segment *segment, const struct gpuyard_description *about,
              const struct gpuyard_gpu *gpus) {
    uint64_t length = layout_length(about->gpu_count);
    int error = gpuyard_segment_allocate(segment, length);
    if (error != GPUYARD_OK) return error;
    struct node_record *node = gpuyard_segment_memory(segment);
    for (unsigned int gpu = 0; gpu < about->gpu_count; gpu++) {
        node->gpus[gpu].about = gpus[gpu];
        write_uuid(node->gpus[gpu].uuid, about->name, gpu);
    }
    node->version = LAYOUT_VERSION;
    node->length = length;
    node->about = *about;
    node->magic = LAYOUT_MAGIC;
    return GPUYARD_OK;
}

bool is_sound(const struct gpuyard_segment *segment) {
    const struct node_record *node = gpuyard_segment_memory(segment);
    uint64_t length = gpuyard_segment_length(segment);
    return node != NULL && length >= sizeof *node && node->magic == LAYOUT_MAGIC && node->version == LAYOUT_VERSION &&
           node->length == length && node->about.gpu_count <= length / sizeof *node->gpus &&
           layout_length(node->about.gpu_count) == length;
}

static bool is_same_gpu(const struct gpuyard_gpu *one, const struct gpuyard_gpu *other) {
    return strncmp(one->key, other->key, sizeof one->key) == 0 &&
           strncmp(one->name, other->name, sizeof one->name) == 0 && one->memory_bytes == other->memory_bytes &&
           one->context_bytes == other->context_bytes && one->compute_major == other->compute_major &&
           one->compute_minor == other->compute_minor && one->multiprocessors == other->multiprocessors &&
           one->idle_watts == other->idle_watts && one->max_watts == other->max_watts &&
           one->core_mhz == other->core_mhz && one->memory_mhz == other->memory_mhz;
}

static bool is_same_sharing(const struct gpuyard_sharing *one, const struct gpuyard_sharing *other) {
    return one->policy == other->policy && one->quantum_s == other->quantum_s && one->switch_s == other->switch_s &&
           one->capacity == other->capacity && one->interference == other->interference;
}

int check_same(const struct gpuyard_segment *segment, const struct gpuyard_description *asked,
               const struct gpuyard_gpu *gpus) {
    const struct node_record *there = gpuyard_segment_memory(segment);
    bool same = there->about.gpu_count == asked->gpu_count;
    for (unsigned int gpu = 0; same && gpu < asked->gpu_count; gpu++)
        same = is_same_gpu(&there->gpus[gpu].about, &gpus[gpu]);
    if (!same) return GPUYARD_ERROR_OTHER_GPUS;
    if (there->about.speed != asked->speed) return GPUYARD_ERROR_OTHER_SPEED;
    return is_same_sharing(&there->about.sharing, &asked->sharing) ? GPUYARD_OK : GPUYARD_ERROR_OTHER_SHARING;
}

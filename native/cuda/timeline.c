#include "timeline.h"

#include <math.h>
#include <string.h>
#include <time.h>

static struct gpuyard_node *node; /* NULL: the clock is a virtual one */
static const struct settings *asked;
static _Atomic double waited; /* what a virtual clock is ahead of the real one; the device clock is nothing else */

int timeline_open(const struct settings *settings) {
    asked = settings;
    if (settings->clock != CLOCK_OF_NODE) return GPUYARD_OK;
    struct gpuyard_gpu gpus[MOST_GPUS];
    for (unsigned int i = 0; i < settings->gpu_count; i++) {
        const struct gpu_kind *kind = settings->gpus[i];
        gpus[i] = (struct gpuyard_gpu){
            .memory_bytes = kind->memory_bytes,
            .compute_major = (uint64_t)kind->compute_major,
            .compute_minor = (uint64_t)kind->compute_minor,
            .multiprocessors = (uint64_t)kind->multiprocessors,
            .idle_watts = kind->idle_watts,
            .max_watts = kind->max_watts,
            .core_mhz = (uint64_t)kind->core_mhz,
            .memory_mhz = (uint64_t)kind->memory_mhz,
        };
        strncpy(gpus[i].key, kind->key, sizeof gpus[i].key - 1);
        strncpy(gpus[i].name, kind->name, sizeof gpus[i].name - 1);
    }
    return gpuyard_open(settings->node, gpus, settings->gpu_count, settings->speed, &settings->sharing, &node);
}

int timeline_connect(unsigned int gpu, struct gpu_client *client) {
    uint64_t all = asked->gpus[gpu]->memory_bytes;
    client->left = asked->terms.memory_limit < all ? asked->terms.memory_limit : all;
    return node == NULL ? GPUYARD_OK : gpuyard_connect(node, gpu, &asked->terms, &client->shared);
}

int timeline_uuid(unsigned int gpu, char uuid[GPUYARD_UUID_BYTES]) {
    if (node != NULL) {
        struct gpuyard_gpu about;
        return gpuyard_describe_gpu(node, gpu, &about, uuid);
    }
    static const char none[] = "GPU-00000000-0000-0000-0000-000000000000";
    memcpy(uuid, none, sizeof none);
    uuid[sizeof none - 2] = (char)("0123456789abcdef"[gpu % 16]);
    return GPUYARD_OK;
}

void timeline_close(void) {
    if (node != NULL) gpuyard_close(node);
}

double timeline_now(void) {
    if (node != NULL) return gpuyard_now(node);
    if (asked->clock == CLOCK_DEVICE) return waited;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec + waited;
}

double timeline_position(struct gpu_client *client, double now) {
    double position = now;
    if (client->shared != NULL) gpuyard_device_time(client->shared, now, &position);
    return position;
}

void timeline_submit(struct gpu_client *client, double tail, double now, double busy) {
    if (client->shared != NULL) gpuyard_submit(client->shared, tail, now, busy);
}

double timeline_reached_at(struct gpu_client *client, double position, double now) {
    double at = position;
    if (client->shared != NULL) gpuyard_reached_at(client->shared, position, now, &at);
    return at;
}

/* A wait moves a virtual clock instead of the host. */
void timeline_wait(struct gpu_client *client, double position) {
    if (client->shared != NULL) {
        while (gpuyard_wait_until(client->shared, position) == GPUYARD_ERROR_INTERRUPTED) continue;
        return;
    }
    /* What is missing may be less than the sum can hold, and then somebody would look again and find it not reached. */
    for (double missing; (missing = position - timeline_now()) > 0;)
        waited = fmax(waited + missing, nextafter(waited, INFINITY));
}

bool timeline_reserve(struct gpu_client *client, uint64_t bytes) {
    if (client->shared != NULL) return gpuyard_reserve(client->shared, bytes) == GPUYARD_OK;
    if (bytes > client->left) return false;
    client->left -= bytes;
    return true;
}

void timeline_release(struct gpu_client *client, uint64_t bytes) {
    if (client->shared != NULL) gpuyard_release(client->shared, bytes);
    else client->left += bytes;
}

uint64_t timeline_free_memory(struct gpu_client *client) {
    uint64_t bytes = client->left;
    if (client->shared != NULL && gpuyard_free_memory(client->shared, &bytes) != GPUYARD_OK) bytes = 0;
    return bytes;
}

void timeline_publish_memory(struct gpu_client *client, uint64_t used, uint64_t peak) {
    if (client->shared == NULL) return;
    gpuyard_publish(client->shared, GPUYARD_ALLOCATED, used);
    gpuyard_publish(client->shared, GPUYARD_PEAK, peak);
}

#include "gpu.h"

#include <math.h>
#include <time.h>

/* How often, at most, a busy process tells the node how far its queue reaches. */
#define PUBLISH_EVERY_S 0.0005

double host_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double device_time(struct gpu *gpu) { return timeline_position(&gpu->client, timeline_now()); }

/* Where work that is queued now could start: earlier than now by what the host computed in the GPU's place. */
static double queue_time(struct gpu *gpu) { return device_time(gpu) - gpu->behind; }

static void publish(struct gpu *gpu, double now) {
    gpu->published = now;
    timeline_submit(&gpu->client, gpu->tail, now, gpu->busy);
}

static void extend(struct gpu *gpu, double *tail, double end, double duration) {
    *tail = end;
    gpu->tail = fmax(gpu->tail, end);
    gpu->busy += duration;
    double now = timeline_now();
    if (now - gpu->published > PUBLISH_EVERY_S || now < gpu->published) publish(gpu, now);
}

void gpu_launch(struct gpu *gpu, double *tail, double duration) {
    pthread_mutex_lock(&gpu->lock);
    double start = fmax(*tail, queue_time(gpu) + gpu->kind->launch_latency_s);
    extend(gpu, tail, start + duration, duration);
    double *slot = &gpu->ends[gpu->launches++ % LAUNCH_QUEUE];
    double full_until = *slot;
    *slot = *tail;
    bool full = full_until > device_time(gpu);
    pthread_mutex_unlock(&gpu->lock);
    if (full) gpu_wait(gpu, full_until);
}

void gpu_copy(struct gpu *gpu, double *tail, double duration, enum engine engine) {
    pthread_mutex_lock(&gpu->lock);
    double *occupied = engine == ENGINE_FROM_HOST ? &gpu->from_host : engine == ENGINE_TO_HOST ? &gpu->to_host : tail;
    double start = fmax(fmax(*tail, *occupied), queue_time(gpu));
    *occupied = start + duration;
    extend(gpu, tail, start + duration, engine == ENGINE_NONE ? duration : 0);
    pthread_mutex_unlock(&gpu->lock);
}

double gpu_mark(struct gpu *gpu, double tail) {
    pthread_mutex_lock(&gpu->lock);
    double position = fmax(tail, queue_time(gpu));
    pthread_mutex_unlock(&gpu->lock);
    return position;
}

bool gpu_has_reached(struct gpu *gpu, double position) {
    pthread_mutex_lock(&gpu->lock);
    publish(gpu, timeline_now());
    bool reached = device_time(gpu) >= position;
    pthread_mutex_unlock(&gpu->lock);
    return reached;
}

void gpu_wait(struct gpu *gpu, double position) {
    pthread_mutex_lock(&gpu->lock);
    publish(gpu, timeline_now());
    bool reached = device_time(gpu) >= position;
    pthread_mutex_unlock(&gpu->lock);
    if (!reached) timeline_wait(&gpu->client, position);
    pthread_mutex_lock(&gpu->lock);
    gpu->behind = 0;
    pthread_mutex_unlock(&gpu->lock);
}

double gpu_seconds_between(struct gpu *gpu, double start, double end) {
    pthread_mutex_lock(&gpu->lock);
    double now = timeline_now();
    double seconds = timeline_reached_at(&gpu->client, end, now) - timeline_reached_at(&gpu->client, start, now);
    pthread_mutex_unlock(&gpu->lock);
    return seconds;
}

void gpu_fell_behind(struct gpu *gpu, double seconds) {
    pthread_mutex_lock(&gpu->lock);
    if (machine_settings()->clock != CLOCK_DEVICE) gpu->behind += seconds * machine_settings()->speed;
    pthread_mutex_unlock(&gpu->lock);
}

bool gpu_reserve(struct gpu *gpu, uint64_t bytes) {
    pthread_mutex_lock(&gpu->lock);
    bool taken = timeline_reserve(&gpu->client, bytes);
    if (taken) {
        gpu->reserved += bytes;
        if (gpu->reserved > gpu->reserved_high) gpu->reserved_high = gpu->reserved;
        timeline_publish_memory(&gpu->client, gpu->reserved, gpu->reserved_high);
    }
    pthread_mutex_unlock(&gpu->lock);
    return taken;
}

void gpu_release(struct gpu *gpu, uint64_t bytes) {
    pthread_mutex_lock(&gpu->lock);
    timeline_release(&gpu->client, bytes);
    gpu->reserved -= bytes;
    timeline_publish_memory(&gpu->client, gpu->reserved, gpu->reserved_high);
    pthread_mutex_unlock(&gpu->lock);
}

uint64_t gpu_free_memory(struct gpu *gpu) {
    pthread_mutex_lock(&gpu->lock);
    uint64_t bytes = timeline_free_memory(&gpu->client);
    pthread_mutex_unlock(&gpu->lock);
    return bytes;
}

uint64_t gpu_memory(const struct gpu *gpu) {
    uint64_t limit = machine_settings()->terms.memory_limit;
    return limit < gpu->kind->memory_bytes ? limit : gpu->kind->memory_bytes;
}

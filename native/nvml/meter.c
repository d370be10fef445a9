/* Utilisation is work done between two looks. The last look at each GPU is kept, so pollers pay for one look only. */
#define _GNU_SOURCE
#include "meter.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "node.h"

/* A shorter time between two looks would show single kernels, a longer one what was and no longer is. */
#define SHORTEST_S 0.1
#define LONGEST_S 3.0

struct meter {
    double looked; /* monotonic seconds of the last look */
    struct company last;
    bool known; /* whether `reading` is what was found between the last two looks */
    struct reading reading;
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static struct meter meters[MOST_GPUS];

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double part(double work, double time) {
    double share = time > 0 ? work / time : 0;
    if (!isfinite(share) || share < 0) return 0;
    return share < 1 ? share : 1;
}

unsigned int percent(double part) { return (unsigned int)(part * 100 + 0.5); }

/* Work that a process had done at the last look; one that sat down since had done none. */
static double done_before(const struct company *before, const struct sitter *sitter) {
    for (unsigned int i = 0; i < before->count; i++)
        if (before->sitters[i].pid == sitter->pid && before->sitters[i].sat_at == sitter->sat_at)
            return before->sitters[i].done;
    return 0;
}

static void compare(const struct company *before, const struct company *after, struct reading *reading) {
    double time = after->now - before->now;
    reading->time_us = (unsigned long long)(seconds(CLOCK_REALTIME) * 1e6);
    reading->busy = part(after->done - before->done, time);
    reading->count = after->count;
    for (unsigned int i = 0; i < after->count; i++) {
        const struct sitter *sitter = &after->sitters[i];
        reading->shares[i] = (struct share){sitter->pid, part(sitter->done - done_before(before, sitter), time)};
    }
}

/* Forgets what is out of date, of all GPUs at once: a program that asks for each in turn then waits once only. */
static void start_afresh(double now) {
    struct gpuyard_header header;
    if (node_header(&header) != NVML_SUCCESS) return;
    for (unsigned int gpu = 0; gpu < header.gpu_count; gpu++) {
        struct meter *meter = &meters[gpu];
        if (meter->last.born == header.created && now - meter->looked <= LONGEST_S) continue;
        if (node_company(gpu, &meter->last) != NVML_SUCCESS) return;
        meter->looked = now;
        meter->known = false;
    }
}

void meter_start(void) {
    pthread_mutex_lock(&gate);
    start_afresh(seconds(CLOCK_MONOTONIC));
    pthread_mutex_unlock(&gate);
}

/* Returns the seconds to wait until the meter can be read: none if `reading` was filled. */
static double try_read(unsigned int gpu, struct reading *reading, nvmlReturn_t *result) {
    struct meter *meter = &meters[gpu];
    double now = seconds(CLOCK_MONOTONIC);
    start_afresh(now);
    if (now - meter->looked >= SHORTEST_S) {
        struct company here;
        *result = node_company(gpu, &here);
        if (*result != NVML_SUCCESS) return 0;
        compare(&meter->last, &here, &meter->reading);
        *meter = (struct meter){now, here, true, meter->reading};
    }
    *reading = meter->reading;
    return meter->known ? 0 : SHORTEST_S - (now - meter->looked);
}

nvmlReturn_t meter_read(unsigned int gpu, struct reading *reading) {
    nvmlReturn_t result = NVML_SUCCESS;
    for (;;) {
        pthread_mutex_lock(&gate);
        double wait = try_read(gpu, reading, &result);
        pthread_mutex_unlock(&gate);
        if (result != NVML_SUCCESS || wait <= 0) return result;
        nanosleep(&(struct timespec){.tv_nsec = (long)(wait * 1e9)}, NULL);
    }
}

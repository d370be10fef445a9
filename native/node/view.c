/* What monitors see of a GPU. */
#define _GNU_SOURCE
#include <math.h>
#include <time.h>

#include "history.h"
#include "node_handle.h"

#define IDLE_CELSIUS 34.0
#define BUSY_CELSIUS 74.0

static double between(double idle, double busy, double part) { return idle + (busy - idle) * part; }

static double unix_time(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct gpuyard_client_view view_client(const struct shared_gpu *gpu, unsigned int number, double now) {
    const struct client_record *client = &gpu->record->clients[number];
    return (struct gpuyard_client_view){
        .pid = client->pid,
        .connected_at = client->connected_at,
        .memory_bytes = shared_gpu_memory_of(gpu, number),
        .reserved_bytes = client->reserved,
        .allocated_bytes = client->figures[GPUYARD_ALLOCATED],
        .peak_bytes = client->figures[GPUYARD_PEAK],
        .steps = client->figures[GPUYARD_STEPS],
        .priority = client->priority,
        .share = client->share,
        .busy_s = work_done(client, now),
        .utilisation = utilisation(client, now, GPUYARD_WINDOW_S * gpu->node->speed),
    };
}

/* Power follows utilisation in a straight line, so energy needs no record: time idle, and work done. */
static double energy(const struct gpuyard_gpu *about, double age, double work) {
    return about->idle_watts * age + (about->max_watts - about->idle_watts) * (work < age ? work : age);
}

static void view_gpu(struct shared_gpu *gpu, double now, struct gpuyard_gpu_view *view) {
    const struct gpuyard_gpu *about = &gpu->record->about;
    double retired = gpu->record->retired_busy;
    *view = (struct gpuyard_gpu_view){.now = now, .unix_time = unix_time(), .busy_s = isfinite(retired) ? retired : 0};
    for (unsigned int client = 0; client < GPUYARD_MOST_CLIENTS; client++) {
        if (!is_connected(gpu, client)) continue;
        struct gpuyard_client_view one = view_client(gpu, client, now);
        view->memory_used += one.memory_bytes;
        view->busy_s += one.busy_s;
        view->utilisation += one.utilisation;
        view->clients[view->client_count++] = one;
    }
    if (view->utilisation > 1) view->utilisation = 1;
    if (view->memory_used > about->memory_bytes) view->memory_used = about->memory_bytes;
    view->watts = between(about->idle_watts, about->max_watts, view->utilisation);
    view->celsius = between(IDLE_CELSIUS, BUSY_CELSIUS, view->utilisation);
    view->joules = energy(about, now - gpu->node->origin, view->busy_s);
}

int gpuyard_look(struct gpuyard_node *node, unsigned int gpu, double now, struct gpuyard_gpu_view *view) {
    if (gpu >= node->about.gpu_count) return GPUYARD_ERROR_NO_SUCH_GPU;
    int error = shared_gpu_lock(&node->gpus[gpu]);
    if (error != GPUYARD_OK) return error;
    view_gpu(&node->gpus[gpu], shared_gpu_reap(&node->gpus[gpu], now), view);
    shared_gpu_unlock(&node->gpus[gpu]);
    return GPUYARD_OK;
}

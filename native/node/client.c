/* A process as a client of one GPU.
 *
 * These functions are called for every operation of a program, so each first tries what is known already: the line
 * that the client's device time follows, which holds until the GPU's generation changes or until the horizon, when
 * somebody's queue ends. Only beyond that it takes the GPU's lock and brings everybody up to date.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "history.h"
#include "node_handle.h"

#define RECHECK_S 0.02 /* how often, in real seconds, a wait beside others looks whether it goes faster by now */
#define SAMPLE_S 0.2   /* how often, in real seconds, samples are recorded at most: all must span the window */

struct gpuyard_client *client_make(struct gpuyard_node *node, struct shared_gpu *gpu, unsigned int number) {
    struct gpuyard_client *client = calloc(1, sizeof *client);
    if (client == NULL) return NULL;
    client->node = node;
    client->gpu = gpu;
    client->number = number;
    client->record = &gpu->record->clients[number];
    client->memory_limit = client->record->memory_limit;
    client->sample_at = -INFINITY;
    client->next = node->clients;
    node->clients = client;
    return client;
}

/* Reads what is known, unless another thread is just changing it. */
static struct gpuyard_line read_line(const struct gpuyard_client *client) {
    unsigned int before = atomic_load_explicit(&client->version, memory_order_acquire);
    struct gpuyard_line line = {
        .generation = atomic_load_explicit(&client->generation, memory_order_relaxed),
        .since = atomic_load_explicit(&client->since, memory_order_relaxed),
        .position = atomic_load_explicit(&client->position, memory_order_relaxed),
        .rate = atomic_load_explicit(&client->rate, memory_order_relaxed),
        .horizon = atomic_load_explicit(&client->horizon, memory_order_relaxed),
        .sample_at = atomic_load_explicit(&client->sample_at, memory_order_relaxed),
        .alone = atomic_load_explicit(&client->alone, memory_order_relaxed),
    };
    atomic_thread_fence(memory_order_acquire);
    bool whole = before % 2 == 0 && before == atomic_load_explicit(&client->version, memory_order_relaxed);
    if (!whole) line.generation = 0;
    return line;
}

static bool holds(const struct gpuyard_client *client, const struct gpuyard_line *line) {
    return line->generation != 0 && client->gpu->record->generation == line->generation;
}

static double line_at(const struct gpuyard_line *line, double now) {
    return line->position + line->rate * (now - line->since);
}

int gpuyard_known_line(const struct gpuyard_client *client, struct gpuyard_line *line) {
    *line = read_line(client);
    line->generation_now = (const volatile uint64_t *)&client->gpu->record->generation;
    line->tail = (volatile double *)&client->record->tail;
    line->busy = (volatile double *)&client->record->busy;
    return GPUYARD_OK;
}

int client_lock(const struct gpuyard_client *client) {
    int error = shared_gpu_lock(client->gpu);
    if (error != GPUYARD_OK) return error;
    if (client->number != NOWHERE && is_connected(client->gpu, client->number)) return GPUYARD_OK;
    shared_gpu_unlock(client->gpu);
    return GPUYARD_ERROR_DISCONNECTED;
}

void client_unlock(const struct gpuyard_client *client) { shared_gpu_unlock(client->gpu); }

static struct queue *own_queue(const struct gpuyard_client *client, struct progress *progress) {
    struct queue *queue = progress->queues;
    while (queue->record != client->record) queue++;
    return queue;
}

static bool is_alone(const struct progress *progress) {
    double rate;
    if (progress->count != 1) return false;
    gpuyard_rates(progress->sharing, &progress->queues->claim, 1, &rate);
    return rate == 1.0;
}

/* Writes what is new for everybody, and remembers what follows for this client. */
static void store(struct gpuyard_client *client, const struct progress *progress, const struct queue *queue) {
    double look_again = progress->clock + REAP_S * client->node->about.speed;
    double horizon = progress->next_event < look_again ? progress->next_event : look_again;
    bool alone = is_alone(progress);
    shared_gpu_write(client->gpu, progress);
    client->version++;
    client->since = queue->clock;
    client->position = queue->position;
    client->rate = queue->rate;
    client->alone = alone;
    client->horizon = alone ? INFINITY : horizon;
    client->generation = client->gpu->record->generation;
    client->version++;
}

/* Brings the GPU up to date. */
static struct queue *look(struct gpuyard_client *client, double now, struct progress *progress) {
    shared_gpu_advance(client->gpu, now, progress);
    struct queue *queue = own_queue(client, progress);
    store(client, progress, queue);
    return queue;
}

int gpuyard_device_time(struct gpuyard_client *client, double now, double *position) {
    struct gpuyard_line line = read_line(client);
    if (holds(client, &line) && now < line.horizon) {
        *position = line_at(&line, now);
        return GPUYARD_OK;
    }
    struct progress progress;
    int error = client_lock(client);
    if (error != GPUYARD_OK) return error;
    struct queue *queue = look(client, now, &progress);
    *position = queue_at(queue, now > queue->clock ? now : queue->clock);
    client_unlock(client);
    return GPUYARD_OK;
}

/* Leaves a trace of what was done before more is queued. */
static void sample(struct gpuyard_client *client, double now, double position) {
    client->sample_at = now + SAMPLE_S * client->node->about.speed;
    record_sample(client->record, position);
}

static int submit_beside_others(struct gpuyard_client *client, double tail, double now, double busy) {
    struct progress progress;
    int error = client_lock(client);
    if (error != GPUYARD_OK) return error;
    shared_gpu_advance(client->gpu, now, &progress);
    struct queue *queue = own_queue(client, &progress);
    if (now >= client->sample_at) sample(client, now, queue_at(queue, progress.clock));
    client->record->tail = queue->tail = tail;
    client->record->busy = busy;
    progress_advance(&progress, progress.clock);
    store(client, &progress, queue);
    client_unlock(client);
    return GPUYARD_OK;
}

/* Alone, or while there is work queued anyway, this changes nobody's rate and needs no lock. */
int gpuyard_submit(struct gpuyard_client *client, double tail, double now, double busy) {
    struct gpuyard_line line = read_line(client);
    double position = line_at(&line, now);
    if (holds(client, &line) && (line.alone || (now < line.horizon && position < client->record->tail))) {
        if (now >= line.sample_at) sample(client, now, position);
        client->record->tail = tail;
        client->record->busy = busy;
        if (holds(client, &line)) return GPUYARD_OK; /* nobody has come meanwhile who might not have seen it */
    }
    return submit_beside_others(client, tail, now, busy);
}

int gpuyard_reached_at(struct gpuyard_client *client, double position, double now, double *at) {
    struct gpuyard_line line = read_line(client);
    if (holds(client, &line) && position > line.position && line.rate > 0) {
        *at = line.since + (position - line.position) / line.rate;
        if (*at < line.horizon) return GPUYARD_OK;
    }
    struct progress progress;
    int error = client_lock(client);
    if (error != GPUYARD_OK) return error;
    struct queue *queue = look(client, now, &progress);
    bool is_past = position <= queue_at(queue, progress.clock);
    if (is_past) *at = passed_at(client->record, position, progress.clock);
    client_unlock(client);
    if (!is_past) *at = progress_forecast(&progress, queue, position);
    return GPUYARD_OK;
}

int gpuyard_look_again(struct gpuyard_client *client, double position, double now, double *at) {
    double reached;
    int error = gpuyard_device_time(client, now, &reached);
    if (error != GPUYARD_OK) return error;
    if (reached >= position) {
        *at = -INFINITY;
        return GPUYARD_OK;
    }
    double latest = client->alone ? INFINITY : now + RECHECK_S * client->node->about.speed;
    error = gpuyard_reached_at(client, position, now, at);
    if (*at > latest) *at = latest;
    return error;
}

int gpuyard_wait_until(struct gpuyard_client *client, double position) {
    for (;;) {
        double at;
        int error = gpuyard_look_again(client, position, gpuyard_now(client->node), &at);
        if (error == GPUYARD_OK && at == -INFINITY) return GPUYARD_OK;
        if (error == GPUYARD_OK) error = gpuyard_sleep_until(client->node, at);
        if (error != GPUYARD_OK) return error;
    }
}

int gpuyard_disconnect(struct gpuyard_client *client) {
    if (client->number == NOWHERE) return GPUYARD_OK;
    int error = client_lock(client);
    if (error != GPUYARD_OK) return error;
    shared_gpu_disconnect(client->gpu, client->number, shared_gpu_reap(client->gpu, gpuyard_now(client->node)));
    client->number = NOWHERE; /* another process may get the number next */
    client->version++;
    client->generation = 0;
    client->version++;
    client_unlock(client);
    return GPUYARD_OK;
}

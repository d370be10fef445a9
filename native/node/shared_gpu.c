/* The clients of one GPU. Whoever looks brings them up to date. */
#define _GNU_SOURCE
#include "shared_gpu.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "history.h"
#include "rates.h"

/* A record's place in the file, whose first byte stands for it. */
static uint64_t place_of(const struct shared_gpu *gpu, const void *record) {
    return (uint64_t)((const char *)record - (const char *)gpuyard_segment_memory(gpu->segment));
}

static uint64_t client_byte(const struct shared_gpu *gpu, unsigned int client) {
    return place_of(gpu, &gpu->record->clients[client]);
}

int shared_gpu_lock(struct shared_gpu *gpu) { return segment_lock(gpu->segment, place_of(gpu, gpu->record)); }

void shared_gpu_unlock(struct shared_gpu *gpu) { segment_unlock(gpu->segment, place_of(gpu, gpu->record)); }

/* A client that cannot be asked about counts as alive. */
static bool is_live(const struct shared_gpu *gpu, unsigned int client) {
    return is_own(gpu, client) || gpuyard_segment_held_elsewhere(gpu->segment, client_byte(gpu, client)) != 0;
}

static double part_of_a_gpu(double part) { return part > 0 && part <= 1 ? part : 1; }

static struct queue read_queue(struct client_record *client, double updated) {
    struct breakpoint last = newest_breakpoint(client);
    double tail = client->tail;
    if (!(isfinite(last.clock) && isfinite(last.position) && last.rate >= 0 && last.rate <= 1)) {
        last = (struct breakpoint){updated, isfinite(tail) ? tail : updated, 1};
        record_breakpoint(client, last.clock, last.position, last.rate);
    }
    return (struct queue){
        .clock = last.clock,
        .position = last.position,
        .rate = last.rate,
        .tail = tail,
        .claim = {client->priority, part_of_a_gpu(client->share), part_of_a_gpu(client->demand), client->ticket},
        .chunk_end = isfinite(client->chunk_end) ? client->chunk_end : 0,
        .record = client,
    };
}

/* A process that was killed while it wrote has moved some clients further than the rest: those catch up. */
static void read_progress(struct shared_gpu *gpu, double now, struct progress *progress) {
    double updated = isfinite(gpu->record->updated) ? gpu->record->updated : now;
    progress->sharing = &gpu->node->sharing;
    progress->clock = updated;
    progress->last_ticket = gpu->record->last_ticket;
    progress->count = 0;
    progress->changed = false;
    for (unsigned int client = 0; client < GPUYARD_MOST_CLIENTS; client++) {
        if (!is_connected(gpu, client)) continue;
        struct queue queue = read_queue(&gpu->record->clients[client], updated);
        if (queue.clock > progress->clock) progress->clock = queue.clock;
        progress->queues[progress->count++] = queue;
    }
}

static void advance(struct shared_gpu *gpu, double now, struct progress *progress) {
    read_progress(gpu, now, progress);
    progress_advance(progress, isfinite(now) && now > progress->clock ? now : progress->clock);
}

void shared_gpu_advance(struct shared_gpu *gpu, double now, struct progress *progress) {
    double since = now - gpu->record->reaped;
    if (!(since >= 0 && since < REAP_S * gpu->node->speed)) shared_gpu_reap(gpu, now);
    advance(gpu, now, progress);
}

double shared_gpu_reap(struct shared_gpu *gpu, double now) {
    struct progress progress;
    gpu->record->reaped = now;
    advance(gpu, now, &progress);
    shared_gpu_write(gpu, &progress);
    for (unsigned int client = 0; client < GPUYARD_MOST_CLIENTS; client++)
        if (is_connected(gpu, client) && !is_live(gpu, client)) shared_gpu_disconnect(gpu, client, progress.clock);
    return progress.clock;
}

/* Makes everybody look again. */
static void tell(struct shared_gpu *gpu) { gpu->record->generation++; }

void shared_gpu_write(struct shared_gpu *gpu, const struct progress *progress) {
    for (unsigned int i = 0; takes_turns(progress->sharing) && i < progress->count; i++) {
        const struct queue *queue = &progress->queues[i];
        queue->record->ticket = queue->claim.ticket;
        queue->record->chunk_end = queue->chunk_end;
    }
    gpu->record->last_ticket = progress->last_ticket;
    gpu->record->updated = progress->clock;
    if (progress->changed) tell(gpu);
}

static void take_place(struct shared_gpu *gpu, unsigned int number, double now, const struct gpuyard_terms *terms) {
    struct client_record *client = &gpu->record->clients[number];
    memset(client, 0, offsetof(struct client_record, breakpoints));
    client->pid = (uint64_t)getpid();
    client->connected_at = client->tail = now;
    client->priority = terms->priority;
    client->share = terms->share;
    client->demand = terms->demand;
    client->memory_limit = terms->memory_limit;
    record_breakpoint(client, now, now, 1);
    gpu->own |= UINT64_C(1) << number;
    gpu->record->connected |= UINT64_C(1) << number; /* from here on it counts */
    tell(gpu);
}

int shared_gpu_connect(struct shared_gpu *gpu, double now, const struct gpuyard_terms *terms) {
    for (unsigned int client = 0; client < GPUYARD_MOST_CLIENTS; client++) {
        if (is_connected(gpu, client)) continue;
        int held = gpuyard_segment_hold(gpu->segment, client_byte(gpu, client), false);
        if (held < 0) return held;
        if (held > 0) continue; /* another process has it after all */
        take_place(gpu, client, now, terms);
        return (int)client;
    }
    return GPUYARD_ERROR_CLIENTS_TAKEN;
}

void shared_gpu_disconnect(struct shared_gpu *gpu, unsigned int client, double now) {
    gpu->record->retired_busy += work_done(&gpu->record->clients[client], now);
    gpu->record->connected &= ~(UINT64_C(1) << client);
    tell(gpu);
    if (!is_own(gpu, client)) return;
    gpu->own &= ~(UINT64_C(1) << client);
    gpuyard_segment_drop(gpu->segment, client_byte(gpu, client));
}

uint64_t shared_gpu_memory_of(const struct shared_gpu *gpu, unsigned int client) {
    return gpu->record->clients[client].reserved + gpu->record->about.context_bytes;
}

uint64_t shared_gpu_memory_used(const struct shared_gpu *gpu) {
    uint64_t used = 0;
    for (unsigned int client = 0; client < GPUYARD_MOST_CLIENTS; client++)
        if (is_connected(gpu, client)) used += shared_gpu_memory_of(gpu, client);
    return used;
}

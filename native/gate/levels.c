/* A client waits while another is active at a higher level. Nothing is counted up and down: each time, all is worked out
 * from the active flags of those who are connected. */
#define _GNU_SOURCE
#include "levels.h"

#include <string.h>

#include "futex.h"

int levels_check(const struct gpuyard_gate_terms *terms) {
    bool known = terms->level >= GPUYARD_GATE_UNGATED && terms->level < GPUYARD_GATE_LEVELS;
    return known ? GPUYARD_OK : GPUYARD_ERROR_LEVEL;
}

void levels_end_job(struct client_record *client, uint64_t at_ns) {
    client->active = 0;
    client->held_since_ns = 0;
    client->last_job_ns = at_ns - client->job_since_ns;
    client->job_since_ns = 0;
    client->jobs_done++;
}

/* How much longer a job is held; 0 if it is not, or no longer. */
static uint64_t left_of_hold(const struct client_record *client, uint64_t now) {
    uint64_t since = client->held_since_ns, hold = client->held_for_ns;
    uint64_t passed = now > since ? now - since : 0;
    return since == 0 || passed >= hold ? 0 : hold - passed;
}

bool levels_lapse(struct gpu_record *gpu, uint64_t now) {
    bool lapsed = false;
    for (uint64_t left = gpu->connected; left != 0; left &= left - 1) {
        struct client_record *client = &gpu->clients[__builtin_ctzll(left)];
        if (client->held_since_ns == 0 || left_of_hold(client, now) != 0) continue;
        levels_end_job(client, client->held_since_ns);
        lapsed = true;
    }
    return lapsed;
}

uint64_t levels_patience(const struct gpu_record *gpu, uint64_t now) {
    uint64_t patience = GPUYARD_GATE_LOOK_NS;
    for (uint64_t left = gpu->connected; left != 0; left &= left - 1) {
        uint64_t held = left_of_hold(&gpu->clients[__builtin_ctzll(left)], now);
        if (held != 0 && held < patience) patience = held;
    }
    return patience;
}

/* The highest level with a job, or with one that is under way and not only held. */
static int64_t highest_active(const struct gpu_record *gpu, bool or_held) {
    int64_t highest = GPUYARD_GATE_UNGATED;
    for (uint64_t left = gpu->connected; left != 0; left &= left - 1) {
        const struct client_record *client = &gpu->clients[__builtin_ctzll(left)];
        int64_t level = client->level;
        if (client->active && (or_held || client->held_since_ns == 0) && level > highest) highest = level;
    }
    return highest;
}

static enum stop_word stop_word(int64_t level, int64_t highest, int64_t highest_under_way) {
    if (level == GPUYARD_GATE_UNGATED || level >= highest) return STOP_OPEN;
    return level < highest_under_way ? STOP_SHUT : STOP_HELD;
}

void levels_apply(struct gpu_record *gpu) {
    int64_t highest = highest_active(gpu, true), under_way = highest_active(gpu, false);
    for (uint64_t left = gpu->connected; left != 0; left &= left - 1) {
        struct client_record *client = &gpu->clients[__builtin_ctzll(left)];
        uint32_t stop = stop_word(client->level, highest, under_way);
        uint32_t before = atomic_exchange(&client->stop, stop);
        if (before != STOP_OPEN && stop != STOP_SHUT && before != stop) futex_wake_all(&client->stop);
    }
}

bool levels_controlled(const struct gpuyard_gate *gate) {
    return gate->controls || gpuyard_segment_held_elsewhere(gate->segment, CONTROLLER_BYTE) == 1;
}

void levels_renew(struct gpuyard_gate *gate, struct gpu_record *gpu) {
    bool controlled = levels_controlled(gate);
    for (uint64_t left = gpu->connected; left != 0; left &= left - 1) {
        struct client_record *client = &gpu->clients[__builtin_ctzll(left)];
        const struct gpuyard_gate_terms *terms =
            controlled && client->decided ? &client->decision : &client->request.terms;
        client->level = terms->level;
        client->sync_every = terms->sync_every;
        client->window = terms->window;
        client->hold_ns = terms->hold_ns;
    }
    levels_apply(gpu);
}

void levels_charge(struct gpu_record *gpu) {
    uint64_t now = monotonic_ns(), busy = gpu->busy & gpu->connected;
    uint64_t passed = now > gpu->charged_ns ? now - gpu->charged_ns : 0;
    gpu->charged_ns = now;
    for (uint64_t left = busy; left != 0; left &= left - 1)
        gpu->clients[__builtin_ctzll(left)].busy_ns += passed / (uint64_t)__builtin_popcountll(busy);
}

void levels_busy(struct gpu_record *gpu, unsigned int slot, bool busy) {
    levels_charge(gpu);
    gpu->busy = busy ? gpu->busy | UINT64_C(1) << slot : gpu->busy & ~(UINT64_C(1) << slot);
}

/* Zeros last: a record whose bit is clear is nobody's. */
void levels_clear(struct gpuyard_gate *gate, struct gpu_record *gpu, unsigned int slot) {
    levels_busy(gpu, slot, false);
    gpu->connected &= ~(UINT64_C(1) << slot);
    memset(&gpu->clients[slot], 0, sizeof gpu->clients[slot]);
    levels_changed(gate);
}

void levels_changed(struct gpuyard_gate *gate) {
    gate->record->changes++;
    futex_wake_all(&gate->record->changes);
}

static bool is_mine(const struct gpuyard_gate *gate, const struct client_record *record) {
    for (const struct gpuyard_gate_client *each = gate->clients; each != NULL; each = each->next)
        if (each->record == record && each->connected) return true;
    return false;
}

void levels_look(struct gpuyard_gate *gate, unsigned int number) {
    struct gpu_record *gpu = &gate->record->gpus[number];
    for (uint64_t left = gpu->connected; left != 0; left &= left - 1) {
        unsigned int slot = (unsigned int)__builtin_ctzll(left);
        if (!is_mine(gate, &gpu->clients[slot]) &&
            gpuyard_segment_held_elsewhere(gate->segment, client_byte(number, slot)) == 0)
            levels_clear(gate, gpu, slot);
    }
    levels_charge(gpu);
    gpu->looked_ns = monotonic_ns();
    levels_lapse(gpu, gpu->looked_ns);
    levels_renew(gate, gpu);
}

/* What gpuyard/emulation/node/view.py finds in a client's samples under a lock, found here without one. */
#include "meter.h"

#include <math.h>

static double at_least_0(double amount) { return isfinite(amount) && amount > 0 ? amount : 0; }

/* The client's device time at a time that has passed, as if at full speed before its history begins. */
static double position_at(const struct gpuyard_client *client, double clock) {
    struct gpuyard_breakpoint each = {.clock = clock, .position = clock};
    for (uint64_t back = 1; back < GPUYARD_MAX_BREAKPOINTS && back <= client->breakpoint_count; back++) {
        each = client->breakpoints[(client->breakpoint_count - back) % GPUYARD_MAX_BREAKPOINTS];
        if (each.clock <= clock) return each.position + each.rate * (clock - each.clock);
    }
    return each.position - (each.clock - clock);
}

/* Work queued less work that the device time has not reached yet. */
static struct gpuyard_sample sample_here(const struct gpuyard_client *client, double now) {
    double position = position_at(client, now), ahead = client->tail - position;
    if (ahead > 0) return (struct gpuyard_sample){position, position, client->busy - ahead};
    return (struct gpuyard_sample){client->tail, position, client->busy};
}

/* Work done by a position before the sample `later`; from one sample to the next it is taken to go on evenly. */
static double done_by(const struct gpuyard_client *client, double position, struct gpuyard_sample later) {
    for (uint64_t back = 1; back < GPUYARD_MAX_SAMPLES && back <= client->sample_count && later.idle_from > position; back++) {
        struct gpuyard_sample earlier = client->samples[(client->sample_count - back) % GPUYARD_MAX_SAMPLES];
        if (earlier.position <= position) {
            double part = (position - earlier.position) / (later.idle_from - earlier.position);
            return earlier.done + part * (later.done - earlier.done);
        }
        later = earlier;
    }
    return later.done;
}

double work_done(const struct gpuyard_client *client, double now) { return at_least_0(sample_here(client, now).done); }

double utilisation(const struct gpuyard_client *client, double now, double window) {
    struct gpuyard_sample here = sample_here(client, now);
    double part = at_least_0((here.done - done_by(client, position_at(client, now - window), here)) / window);
    return part < 1 ? part : 1;
}

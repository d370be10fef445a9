/* The past of a client. Numbers that a killed process left may make no sense: answers are in range all the same. */
#include "history.h"

#include <math.h>

static double at_least_0(double amount) { return isfinite(amount) && amount > 0 ? amount : 0; }

/* The breakpoint that is so many before the next one to be written. */
static struct breakpoint breakpoint_back(const struct client_record *client, uint64_t back) {
    return client->breakpoints[(client->breakpoint_count - back) % MOST_BREAKPOINTS];
}

static uint64_t breakpoints_kept(const struct client_record *client) {
    uint64_t written = client->breakpoint_count;
    return written < MOST_BREAKPOINTS ? written : MOST_BREAKPOINTS;
}

struct breakpoint newest_breakpoint(const struct client_record *client) { return breakpoint_back(client, 1); }

double position_at(const struct client_record *client, double clock) {
    struct breakpoint each = {.clock = clock, .position = clock};
    for (uint64_t back = 1; back <= breakpoints_kept(client); back++) {
        each = breakpoint_back(client, back);
        if (each.clock <= clock) return each.position + each.rate * (clock - each.clock);
    }
    return each.position - (each.clock - clock);
}

double passed_at(const struct client_record *client, double position, double updated) {
    double later = updated, start = position;
    for (uint64_t back = 1; back <= breakpoints_kept(client); back++) {
        struct breakpoint each = breakpoint_back(client, back);
        start = each.position;
        if (start < position) {
            double at = each.rate > 0 ? each.clock + (position - start) / each.rate : later;
            return at < later ? at : later;
        }
        later = each.clock;
    }
    return later - (start - position);
}

/* What a client has done at a position: all that it queued, without what is still ahead of it. */
static struct sample sample_at(const struct client_record *client, double position) {
    double tail = client->tail, queued = client->busy;
    if (tail > position) return (struct sample){position, position, queued - (tail - position)};
    return (struct sample){tail, position, queued};
}

void record_sample(struct client_record *client, double position) {
    uint64_t recorded = client->sample_count;
    client->samples[recorded % MOST_SAMPLES] = sample_at(client, position);
    client->sample_count = recorded + 1;
}

double work_done(const struct client_record *client, double now) {
    return at_least_0(sample_at(client, position_at(client, now)).done);
}

/* Work done by a position before the sample `later`; from one sample to the next it is taken to go on evenly. The
 * oldest sample is left out, as it may just be overwritten. */
static double done_by(const struct client_record *client, double position, struct sample later) {
    uint64_t recorded = client->sample_count;
    for (uint64_t back = 1; back < MOST_SAMPLES && back <= recorded && later.idle_from > position; back++) {
        struct sample earlier = client->samples[(recorded - back) % MOST_SAMPLES];
        if (earlier.position <= position) {
            double part = (position - earlier.position) / (later.idle_from - earlier.position);
            return earlier.done + part * (later.done - earlier.done);
        }
        later = earlier;
    }
    return later.done;
}

double utilisation(const struct client_record *client, double now, double window) {
    struct sample here = sample_at(client, position_at(client, now));
    double part = at_least_0((here.done - done_by(client, position_at(client, now - window), here)) / window);
    return part < 1 ? part : 1;
}

/* What gpuyard/emulation/node/view.py finds in a seat's marks under a lock, found here without one. */
#include "meter.h"

#include <math.h>

static double at_least_0(double amount) { return isfinite(amount) && amount > 0 ? amount : 0; }

/* The seat's device time at a time that has passed, as if at full speed before its history begins. */
static double position_at(const struct gpuyard_seat *seat, double clock) {
    struct gpuyard_breakpoint each = {.clock = clock, .position = clock};
    for (uint64_t back = 1; back < GPUYARD_HISTORY && back <= seat->breakpoints; back++) {
        each = seat->history[(seat->breakpoints - back) % GPUYARD_HISTORY];
        if (each.clock <= clock) return each.position + each.rate * (clock - each.clock);
    }
    return each.position - (each.clock - clock);
}

/* Work queued less work that the device time has not reached yet. */
static struct gpuyard_mark mark_here(const struct gpuyard_seat *seat, double now) {
    double position = position_at(seat, now), ahead = seat->tail - position;
    if (ahead > 0) return (struct gpuyard_mark){position, position, seat->busy - ahead};
    return (struct gpuyard_mark){seat->tail, position, seat->busy};
}

/* Work done by a position before the mark `later`; from one mark to the next it is taken to go on evenly. */
static double done_by(const struct gpuyard_seat *seat, double position, struct gpuyard_mark later) {
    for (uint64_t back = 1; back < GPUYARD_MARKS && back <= seat->marks && later.idle_from > position; back++) {
        struct gpuyard_mark earlier = seat->trail[(seat->marks - back) % GPUYARD_MARKS];
        if (earlier.position <= position) {
            double part = (position - earlier.position) / (later.idle_from - earlier.position);
            return earlier.done + part * (later.done - earlier.done);
        }
        later = earlier;
    }
    return later.done;
}

double work_done(const struct gpuyard_seat *seat, double now) { return at_least_0(mark_here(seat, now).done); }

double utilisation(const struct gpuyard_seat *seat, double now, double window) {
    struct gpuyard_mark here = mark_here(seat, now);
    double part = at_least_0((here.done - done_by(seat, position_at(seat, now - window), here)) / window);
    return part < 1 ? part : 1;
}

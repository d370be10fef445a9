/* The clock that all processes of a node read. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "node_handle.h"

#define SPIN_S 0.0002 /* a sleep may end this much late, so the last of a wait is spent looking at the clock */

static double monotonic(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double offset(const struct gpuyard_node *node) { return node->about.origin * (1.0 - node->about.speed); }

double gpuyard_now(const struct gpuyard_node *node) { return monotonic() * node->about.speed + offset(node); }

int gpuyard_sleep_until(const struct gpuyard_node *node, double time) {
    double deadline = (time - offset(node)) / node->about.speed;
    for (double left; (left = deadline - monotonic() - SPIN_S) > 0;) {
        struct timespec span = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        if (clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL) == EINTR) return GPUYARD_ERROR_INTERRUPTED;
    }
    while (monotonic() < deadline) sched_yield();
    return GPUYARD_OK;
}

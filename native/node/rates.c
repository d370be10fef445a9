/* How fast each of several clients with work queued runs, 1.0 being a GPU to itself. */
#include "rates.h"

#include <stddef.h>

static const char *const names[] = {
    [GPUYARD_TIME_SLICE] = "time-slice", [GPUYARD_FIFO] = "fifo",           [GPUYARD_PRIORITY] = "priority",
    [GPUYARD_SPATIAL] = "spatial",       [GPUYARD_PARTITION] = "partition", [GPUYARD_EXCLUSIVE] = "exclusive",
};

const char *gpuyard_policy_name(uint64_t policy) {
    return policy < sizeof names / sizeof *names ? names[policy] : NULL;
}

double held_share(const struct gpuyard_sharing *sharing, double share) {
    return sharing->policy == GPUYARD_EXCLUSIVE ? 1.0 : sharing->policy == GPUYARD_PARTITION ? share : 0.0;
}

/* What each of so many gets in turn; a switch costs something as soon as there is somebody to switch to. */
static double slice_rate(const struct gpuyard_sharing *sharing, unsigned int count) {
    return count == 1 ? 1.0 : sharing->quantum_s / (sharing->quantum_s + sharing->switch_s) / count;
}

static void same_for_all(double rate, unsigned int count, double *rates) {
    for (unsigned int i = 0; i < count; i++) rates[i] = rate;
}

static void first_in_line(const struct gpuyard_claim *claims, unsigned int count, double *rates) {
    uint64_t first = UINT64_MAX;
    for (unsigned int i = 0; i < count; i++) first = claims[i].ticket < first ? claims[i].ticket : first;
    for (unsigned int i = 0; i < count; i++) rates[i] = claims[i].ticket == first ? 1.0 : 0.0;
}

static void highest_level(const struct gpuyard_sharing *sharing, const struct gpuyard_claim *claims, unsigned int count,
                          double *rates) {
    int64_t highest = INT64_MIN;
    unsigned int level = 0;
    for (unsigned int i = 0; i < count; i++) highest = claims[i].priority > highest ? claims[i].priority : highest;
    for (unsigned int i = 0; i < count; i++) level += claims[i].priority == highest;
    double each = slice_rate(sharing, level);
    for (unsigned int i = 0; i < count; i++) rates[i] = claims[i].priority == highest ? each : 0.0;
}

static double side_by_side(const struct gpuyard_sharing *sharing, const struct gpuyard_claim *claims,
                           unsigned int count) {
    double demand = 0, factor = 1;
    for (unsigned int i = 0; i < count; i++) demand += claims[i].demand;
    for (unsigned int i = 1; i < count; i++) factor *= sharing->interference;
    double fits = sharing->capacity / demand;
    return (fits < 1.0 ? fits : 1.0) * factor;
}

void gpuyard_rates(const struct gpuyard_sharing *sharing, const struct gpuyard_claim *claims, unsigned int count,
                   double *rates) {
    switch (sharing->policy) {
        case GPUYARD_TIME_SLICE: same_for_all(slice_rate(sharing, count), count, rates); break;
        case GPUYARD_FIFO: first_in_line(claims, count, rates); break;
        case GPUYARD_PRIORITY: highest_level(sharing, claims, count, rates); break;
        case GPUYARD_SPATIAL: same_for_all(side_by_side(sharing, claims, count), count, rates); break;
        case GPUYARD_PARTITION:
            for (unsigned int i = 0; i < count; i++) rates[i] = claims[i].share;
            break;
        default: same_for_all(1.0, count, rates);
    }
}

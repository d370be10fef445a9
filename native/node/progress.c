/* Device time as a computation: of shared memory it touches only the breakpoints of those whose rate changes. */
#include "progress.h"

#include <math.h>

#include "rates.h"

static double least(double a, double b) { return b < a ? b : a; }

static double most(double a, double b) { return b > a ? b : a; }

void record_breakpoint(struct client_record *record, double clock, double position, double rate) {
    uint64_t number = record->breakpoint_count;
    record->breakpoints[number % MOST_BREAKPOINTS] = (struct breakpoint){clock, position, rate};
    record->breakpoint_count = number + 1;
}

/* When the line reaches a position, never before the last breakpoint. */
static double reaches(const struct queue *queue, double position) {
    if (position <= queue->position) return queue->clock;
    return queue->rate > 0 ? queue->clock + (position - queue->position) / queue->rate : INFINITY;
}

static void turn(struct progress *progress, struct queue *queue, double rate) {
    queue->position = queue_at(queue, progress->clock);
    queue->clock = progress->clock;
    queue->rate = rate;
    if (queue->record != NULL) record_breakpoint(queue->record, queue->clock, queue->position, rate);
    progress->changed = true;
}

/* The position of an active queue's next event. */
static double end_of(const struct progress *progress, const struct queue *queue) {
    return takes_turns(progress->sharing) ? least(queue->chunk_end, queue->tail) : queue->tail;
}

/* Lets an active queue that has no turn, or none left, line up with all that it has queued by now. */
static void line_up(struct progress *progress, struct queue *queue) {
    if (queue_at(queue, progress->clock) < queue->chunk_end) return;
    queue->claim.ticket = ++progress->last_ticket;
    queue->chunk_end = queue->tail;
}

/* Finds the active queues; those that are done follow the clock. */
static unsigned int find_active(struct progress *progress, struct queue **active) {
    unsigned int count = 0;
    for (struct queue *queue = progress->queues; queue < progress->queues + progress->count; queue++) {
        if (queue_at(queue, progress->clock) < queue->tail) active[count++] = queue;
        else if (queue->rate != 1.0) turn(progress, queue, 1.0);
    }
    for (unsigned int i = 0; i < count && takes_turns(progress->sharing); i++) line_up(progress, active[i]);
    return count;
}

/* Gives every queue its rate from now on, and finds the next event. */
static unsigned int set_rates(struct progress *progress, struct queue **active) {
    struct gpuyard_claim claims[GPUYARD_MOST_CLIENTS];
    double rates[GPUYARD_MOST_CLIENTS];
    unsigned int count = find_active(progress, active);
    for (unsigned int i = 0; i < count; i++) claims[i] = active[i]->claim;
    gpuyard_rates(progress->sharing, claims, count, rates);
    progress->next_event = INFINITY;
    for (unsigned int i = 0; i < count; i++) {
        if (active[i]->rate != rates[i]) turn(progress, active[i], rates[i]);
        double end = most(progress->clock, reaches(active[i], end_of(progress, active[i])));
        progress->next_event = least(progress->next_event, end);
    }
    return count;
}

void progress_advance(struct progress *progress, double until) {
    struct queue *active[GPUYARD_MOST_CLIENTS];
    unsigned int count = set_rates(progress, active);
    while (progress->next_event <= until) {
        progress->clock = progress->next_event;
        for (unsigned int i = 0; i < count; i++) {
            double end = end_of(progress, active[i]);
            if (reaches(active[i], end) > progress->clock) continue;
            active[i]->clock = progress->clock; /* exactly there, whatever rounding says */
            active[i]->position = end;
        }
        count = set_rates(progress, active);
    }
    progress->clock = until;
}

double progress_forecast(struct progress *progress, struct queue *queue, double position) {
    for (unsigned int i = 0; i < progress->count; i++) progress->queues[i].record = NULL;
    progress_advance(progress, progress->clock);
    while (reaches(queue, position) > progress->next_event) progress_advance(progress, progress->next_event);
    return most(progress->clock, reaches(queue, position));
}

/* How device time passes for the clients of one GPU: straight lines between events.
 *
 * Nothing changes between two events. An event is a client that reaches the end of its queue (or, under fifo, of its
 * turn).
 */
#ifndef GPUYARD_PROGRESS_H
#define GPUYARD_PROGRESS_H

#include "layout.h"

/* One client: the line its device time follows since its last breakpoint, and how far its queue reaches. */
struct queue {
    double clock, position, rate;
    double tail;
    struct gpuyard_claim claim;
    double chunk_end;
    struct client_record *record; /* where changes of the rate are written; NULL in a forecast */
};

/* All clients of a GPU at one time of the clock. */
struct progress {
    const struct gpuyard_sharing *sharing;
    struct queue queues[GPUYARD_MOST_CLIENTS];
    unsigned int count;
    double clock;
    uint64_t last_ticket;
    double next_event; /* when a rate changes next, if nobody queues anything */
    bool changed;      /* whether any rate has */
};

/* The device time at a time of the clock that is not before the last breakpoint. */
static inline double queue_at(const struct queue *queue, double clock) {
    return queue->position + queue->rate * (clock - queue->clock);
}

/* Moves on to a later time, through all events on the way. */
void progress_advance(struct progress *progress, double until);

/* When a queue reaches a position ahead of it if nobody queues anything. Moves on to there, and writes nothing. */
double progress_forecast(struct progress *progress, struct queue *queue, double position);

/* Writes down that a client goes on at another rate. It counts once its number is stored, so half of one never does. */
void record_breakpoint(struct client_record *record, double clock, double position, double rate);

#endif

/* What a client's breakpoints and samples tell about the past. */
#ifndef GPUYARD_HISTORY_H
#define GPUYARD_HISTORY_H

#include "layout.h"

/* The client's newest breakpoint. */
struct breakpoint newest_breakpoint(const struct client_record *client);

/* A client's device time at a time that has passed, as if at full speed before its history begins. */
double position_at(const struct client_record *client, double clock);

/* When a client reached a position that lies behind it at the time `updated`. What is older than the history counts as
 * if it had run at full speed. */
double passed_at(const struct client_record *client, double position, double updated);

/* Writes down how far a client has come. Only its own process does so, hence without a lock. */
void record_sample(struct client_record *client, double position);

/* Seconds of work done for a client up to a time. */
double work_done(const struct client_record *client, double now);

/* The part of the `window` before now in which the GPU worked for a client, 0 to 1. */
double utilisation(const struct client_record *client, double now, double window);

#endif

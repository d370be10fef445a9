/* Stop words: who must not launch now, from what all live clients of a GPU say. Called under the GPU's lock. */
#ifndef GPUYARD_GATE_LEVELS_H
#define GPUYARD_GATE_LEVELS_H

#include "group.h"

/* Whether there is such a level. */
int levels_check(const struct gpuyard_gate_terms *terms);

/* Ends a client's job as of an instant. */
void levels_end_job(struct client_record *client, uint64_t at_ns);

/* Ends jobs that were held long enough; says whether there were any. */
bool levels_lapse(struct gpu_record *gpu, uint64_t now);

/* How long whoever waits may sleep before it has to look by itself. Needs no lock. */
uint64_t levels_patience(const struct gpu_record *gpu, uint64_t now);

/* Rewrites the stop words of a GPU, and wakes whoever may go on or has to look earlier. */
void levels_apply(struct gpu_record *gpu);

/* Puts terms into force, the controller's if one is alive, and applies levels. */
void levels_renew(struct gpuyard_gate *gate, struct gpu_record *gpu);

/* Disconnects the dead, and renews. */
void levels_look(struct gpuyard_gate *gate, unsigned int gpu);

/* Whether a controller is alive. */
bool levels_controlled(const struct gpuyard_gate *gate);

/* Gives the GPU time that has passed to those who are busy, and says whether a client is from now on. The device divides
 * its time among processes evenly, so this does. */
void levels_charge(struct gpu_record *gpu);
void levels_busy(struct gpu_record *gpu, unsigned int slot, bool busy);

/* Forgets a client; its place is free. */
void levels_clear(struct gpuyard_gate *gate, struct gpu_record *gpu, unsigned int slot);

/* Says that clients came or went. */
void levels_changed(struct gpuyard_gate *gate);

#endif

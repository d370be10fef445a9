/* Time and memory of GPUs, whoever keeps them: the node, shared with other processes, or this process alone if its
 * clock is a virtual one. */
#ifndef GPUYARD_CUDA_TIMELINE_H
#define GPUYARD_CUDA_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "settings.h"

/* This process at one GPU. */
struct gpu_client {
    struct gpuyard_client *shared; /* NULL for the sole user of a GPU */
    uint64_t left;                 /* bytes that the sole user has not taken */
};

/* Returns GPUYARD_OK or a gpuyard_error. */
int timeline_open(const struct settings *settings);
int timeline_connect(unsigned int gpu, struct gpu_client *client);
int timeline_uuid(unsigned int gpu, char uuid[GPUYARD_UUID_BYTES]);
void timeline_close(void);

double timeline_now(void);
double timeline_position(struct gpu_client *client, double now);
void timeline_submit(struct gpu_client *client, double tail, double now, double busy);
double timeline_reached_at(struct gpu_client *client, double position, double now);
void timeline_wait(struct gpu_client *client, double position);

bool timeline_reserve(struct gpu_client *client, uint64_t bytes);
void timeline_release(struct gpu_client *client, uint64_t bytes);
uint64_t timeline_free_memory(struct gpu_client *client);
void timeline_publish_memory(struct gpu_client *client, uint64_t used, uint64_t peak);

#endif

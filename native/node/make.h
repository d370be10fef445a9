/* Filling a node's file, and telling whether one is what it should be. */
#ifndef GPUYARD_MAKE_H
#define GPUYARD_MAKE_H

#include "layout.h"
#include "segment.h"

/* What a node of this name, made now, says about itself. */
struct gpuyard_description description_of(const char *name, unsigned int gpu_count, double speed,
                                          const struct gpuyard_sharing *sharing);

/* Fills an empty segment. */
int make_node(struct gpuyard_segment *segment, const struct gpuyard_description *about,
              const struct gpuyard_gpu *gpus);

/* Whether a segment that is mapped is a complete node of this version. */
bool is_sound(const struct gpuyard_segment *segment);

/* Says in what a sound node differs from what is asked for. */
int check_same(const struct gpuyard_segment *segment, const struct gpuyard_description *asked,
               const struct gpuyard_gpu *gpus);

#endif

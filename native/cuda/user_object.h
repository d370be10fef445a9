/* Objects of a program that are destroyed with the last graph, or other holder, that refers to them. */
#ifndef GPUYARD_CUDA_USER_OBJECT_H
#define GPUYARD_CUDA_USER_OBJECT_H

#include "graph.h"

/* A graph's copy refers to the same objects; what is freed refers to none. */
CUresult user_objects_copy(struct graph *to, const struct graph *from);
void user_objects_release(struct graph *graph);

#endif

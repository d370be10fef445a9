/* Where the files of nodes are, and which node a program means. */
#ifndef GPUYARD_FIND_H
#define GPUYARD_FIND_H

#include "segment.h"

/* Writes the path of the file of a node that is live: of this name or, without one, that the environment means. */
int find_path(const char *name, char path[GPUYARD_PATH_BYTES]);

/* Reads what a live node says about itself from its file; the file of a dead one is removed. */
int read_live(const char *path, struct gpuyard_description *about);

#endif

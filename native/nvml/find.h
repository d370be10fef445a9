/* Finding the file of the node that a program means. */
#ifndef GPUYARD_NVML_FIND_H
#define GPUYARD_NVML_FIND_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns an open file, or -1 if there is no such node alive. */
int find_node(void);

/* Whether any process holds a lock on a byte of the file; the kernel drops locks with their process. */
bool is_locked(int file, off_t byte);

#endif

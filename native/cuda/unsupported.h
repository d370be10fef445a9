/* All functions of the driver API, those that are not supported included. native/build.py writes the table, and a weak
 * function for each name, which is there only where no other source defines it. */
#ifndef GPUYARD_CUDA_UNSUPPORTED_H
#define GPUYARD_CUDA_UNSUPPORTED_H

#include "abi.h"

struct driver_function {
    const char *name;
    int since; /* version of CUDA */
    void *address;
};

extern const struct driver_function DRIVER_FUNCTIONS[]; /* ends with a name of NULL */

CUresult unsupported(const char *name);

#endif

/* Another library that stands before the driver, and calls the next one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "abi.h"

EXPORT CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
    CUresult (*next)(CUgraphExec, CUstream) = (CUresult(*)(CUgraphExec, CUstream))dlsym(RTLD_NEXT, "cuGraphLaunch");
    if (next == NULL || next == cuGraphLaunch) return CUDA_ERROR_NOT_FOUND;
    fprintf(stderr, "interposed\n");
    return next(graph, stream);
}

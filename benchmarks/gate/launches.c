/* Prints the CPU time of a launch in microseconds, the best of several rounds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#include "abi.h"

CUresult cuInit(unsigned int);
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuCtxSynchronize(void);
CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                        unsigned int, CUstream, void **, void **);

enum { ROUNDS = 10, LAUNCHES = 200000 };

static double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(void) {
    CUcontext context;
    double best = 1e9;
    if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS) return 1;
    for (int round = 0; round < ROUNDS; round++) {
        double since = cpu_seconds();
        for (int i = 0; i < LAUNCHES; i++)
            if (cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != CUDA_SUCCESS) return 2;
        double took = cpu_seconds() - since;
        if (took < best) best = took;
        if (cuCtxSynchronize() != CUDA_SUCCESS) return 3;
    }
    printf("%.6f\n", best / LAUNCHES * 1e6);
    return 0;
}

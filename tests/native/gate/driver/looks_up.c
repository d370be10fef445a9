/* Launches once by a function found in one way: looks_up WAY. Prints how many launches the gate has counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"

typedef CUresult launch_function(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                 unsigned int, unsigned int, CUstream, void **, void **);
typedef CUresult look_up_function(const char *, void **, int, uint64_t, int *);

CUresult cuInit(unsigned int);
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
launch_function cuLaunchKernel;
look_up_function cuGetProcAddress_v2;

static launch_function *found(const char *way) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *address = NULL, *look_up = NULL;
    if (strcmp(way, "linked") == 0) return cuLaunchKernel;
    if (strcmp(way, "dlsym") == 0) return (launch_function *)dlsym(driver, "cuLaunchKernel");
    if (strcmp(way, "dlsym-default") == 0) return (launch_function *)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
    if (strcmp(way, "dlvsym") == 0) return (launch_function *)dlvsym(driver, "cuLaunchKernel", "still");
    if (strcmp(way, "driver") == 0) cuGetProcAddress_v2("cuLaunchKernel", &address, 12000, 0, NULL);
    if (strcmp(way, "driver-per-thread") == 0)
        cuGetProcAddress_v2("cuLaunchKernel", &address, 12000, CU_GET_PROC_ADDRESS_PER_THREAD, NULL);
    if (strcmp(way, "driver-twice") == 0) { /* the look-up function itself looked up, as the CUDA runtime does */
        cuGetProcAddress_v2("cuGetProcAddress", &look_up, 12000, 0, NULL);
        ((look_up_function *)look_up)("cuLaunchKernel", &address, 12000, 0, NULL);
    }
    if (strcmp(way, "next") == 0) return (launch_function *)dlsym(RTLD_NEXT, "cuLaunchKernel");
    return (launch_function *)address;
}

int main(int count, char **arguments) {
    CUcontext context;
    launch_function *launch = found(count > 1 ? arguments[1] : "");
    if (launch == NULL || cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS) return 1;
    if (launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != CUDA_SUCCESS) return 2;
    puts("launched");
    fflush(stdout);
    return getchar() == EOF ? 0 : 3; /* until the test has looked */
}

/* A CUDA program as anybody writes it: y = a x + y on the GPU, and a look whether that is right. It is linked with
 * libcuda alone and knows nothing of gpuyard. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int), cuDeviceGet(int *, int), cuDeviceGetName(char *, int, int), cuCtxCreate_v2(void **, unsigned int, int),
    cuDeviceGetCount(int *), cuMemGetInfo_v2(size_t *, size_t *), cuModuleLoadData(void **, const void *),
    cuModuleGetFunction(void **, void *, const char *), cuMemAlloc_v2(CUdeviceptr *, size_t),
    cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t), cuCtxSynchronize(void),
    cuLaunchKernel(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                   unsigned int, void *, void **, void **);

static const char PTX[] =
    ".version 6.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 y) {\n"
    ".reg .b32 %r<4>; .reg .b64 %d<6>; .reg .f32 %f<5>;\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r1, %r1, %r2, %r3;\n"
    "mul.wide.u32 %d1, %r1, 4; ld.param.u64 %d2, [x]; ld.param.u64 %d3, [y]; ld.param.f32 %f1, [a];\n"
    "add.s64 %d4, %d2, %d1; add.s64 %d5, %d3, %d1; ld.global.f32 %f2, [%d4]; ld.global.f32 %f3, [%d5];\n"
    "fma.rn.f32 %f4, %f1, %f2, %f3; st.global.f32 [%d5], %f4; ret; }\n";

enum { BLOCKS = 16, THREADS = 64, N = BLOCKS * THREADS, LAUNCHES = 10 };

#define OK(call)                                              \
    do {                                                      \
        int code = (call);                                    \
        if (code) {                                           \
            printf("%s: error %d\n", #call, code);            \
            return EXIT_FAILURE;                              \
        }                                                     \
    } while (0)

int main(void) {
    float x[N], y[N], a = 2;
    void *context, *module, *kernel;
    CUdeviceptr dx, dy;
    char name[100];
    size_t left, total;
    int device, devices;
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 1;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&devices));
    OK(cuDeviceGet(&device, 0));
    OK(cuDeviceGetName(name, sizeof name, device));
    OK(cuCtxCreate_v2(&context, 0, device));
    OK(cuMemGetInfo_v2(&left, &total));
    OK(cuModuleLoadData(&module, PTX));
    OK(cuModuleGetFunction(&kernel, module, "axpy"));
    OK(cuMemAlloc_v2(&dx, sizeof x));
    OK(cuMemAlloc_v2(&dy, sizeof y));
    OK(cuMemcpyHtoD_v2(dx, x, sizeof x));
    OK(cuMemcpyHtoD_v2(dy, y, sizeof y));
    void *arguments[] = {&a, &dx, &dy};
    for (int i = 0; i < LAUNCHES; i++) OK(cuLaunchKernel(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(y, dy, sizeof y));
    for (int i = 0; i < N; i++)
        if (y[i] != 1 + LAUNCHES * a * x[i]) return printf("y[%d] is %g\n", i, y[i]), EXIT_FAILURE;
    printf("right on %d %s with %.0f GiB\n", devices, name, (double)total / (1 << 30));
    return EXIT_SUCCESS;
}

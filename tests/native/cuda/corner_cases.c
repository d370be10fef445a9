/* Corner cases of the driver API, on a clock that counts only the GPU's time: each kernel takes 100 us, as the test
 * says. Prints a line for each case that holds; stops at the first check that does not. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

#define CHECK(condition)                                           \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("%s:%d: %s\n", __func__, __LINE__, #condition); \
            exit(1);                                               \
        }                                                          \
    } while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

CUresult cuInit(unsigned int), cuDeviceGetCount(int *), cuDevicePrimaryCtxRetain(CUcontext *, CUdevice),
    cuCtxSetCurrent(CUcontext), cuCtxGetCurrent(CUcontext *), cuCtxPushCurrent_v2(CUcontext),
    cuCtxPopCurrent_v2(CUcontext *), cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice), cuCtxDestroy_v2(CUcontext),
    cuCtxSynchronize(void), cuStreamCreate(CUstream *, unsigned int), cuStreamDestroy_v2(CUstream),
    cuStreamQuery(CUstream), cuStreamSynchronize(CUstream), cuStreamWaitEvent(CUstream, CUevent, unsigned int),
    cuEventCreate(CUevent *, unsigned int), cuEventDestroy_v2(CUevent), cuEventRecord(CUevent, CUstream),
    cuEventQuery(CUevent), cuEventSynchronize(CUevent), cuEventElapsedTime(float *, CUevent, CUevent),
    cuModuleLoadData(CUmodule *, const void *), cuModuleUnload(CUmodule),
    cuModuleGetFunction(CUfunction *, CUmodule, const char *),
    cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, CUmodule, const char *),
    cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                   unsigned int, CUstream, void **, void **),
    cuLaunchKernel_ptsz(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                        unsigned int, CUstream, void **, void **),
    cuStreamSynchronize_ptsz(CUstream), cuEventRecord_ptsz(CUevent, CUstream),
    cuLaunchCooperativeKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                              unsigned int, unsigned int, CUstream, void **),
    cuLaunchHostFunc(CUstream, CUhostFn, void *), cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemFree_v2(CUdeviceptr),
    cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned int),
    cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t),
    cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream), cuMemcpy(CUdeviceptr, CUdeviceptr, size_t),
    cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t), cuMemcpy2D_v2(const CUDA_MEMCPY2D *),
    cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t),
    cuMemsetD2D16_v2(CUdeviceptr, size_t, unsigned short, size_t, size_t),
    cuMemsetD32_v2(CUdeviceptr, unsigned int, size_t), cuMemHostAlloc(void **, size_t, unsigned int),
    cuMemFreeHost(void *), cuMemHostRegister_v2(void *, size_t, unsigned int), cuMemHostUnregister(void *),
    cuPointerGetAttribute(void *, unsigned int, CUdeviceptr),
    cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr), cuMemGetInfo_v2(size_t *, size_t *),
    cuStreamBeginCapture_v2(CUstream, unsigned int), cuStreamEndCapture(CUstream, CUgraph *),
    cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long), cuGraphLaunch(CUgraphExec, CUstream),
    cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *), cuGraphExecDestroy(CUgraphExec), cuGraphDestroy(CUgraph),
    cuGetProcAddress_v2(const char *, void **, int, uint64_t, unsigned int *), cuTexObjectCreate(void),
    cuMemAlloc(void);

static const char PTX[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 seen;\n"
    ".visible .entry k(.param .u64 p) { .reg .b64 %rd<2>; .reg .b32 %r<2>; ld.param.u64 %rd1, [p];\n"
    "atom.global.add.u32 %r1, [%rd1], 1; ret; }\n";

static CUcontext context;
static CUmodule module;
static CUfunction kernel;
static CUdeviceptr counter;
static CUevent start, end;

static CUresult launch(CUstream stream) {
    void *arguments[] = {&counter};
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static float since_start(CUevent event) {
    float milliseconds;
    OK(cuEventSynchronize(event));
    OK(cuEventElapsedTime(&milliseconds, start, event));
    return milliseconds;
}

static void begin(void) {
    OK(cuCtxSynchronize());
    OK(cuEventRecord(start, NULL));
}

static int is_near(float a, double b) { return fabs(a - b) < 1e-3; }

static void streams_overlap_and_the_default_one_waits(void) {
    CUstream a, b, apart;
    CUevent after_a, after_b, after_apart;
    OK(cuStreamCreate(&a, 0));
    OK(cuStreamCreate(&b, 0));
    OK(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&after_a, 0));
    OK(cuEventCreate(&after_b, 0));
    OK(cuEventCreate(&after_apart, 0));
    begin();
    OK(launch(a));
    OK(launch(a));
    OK(launch(b));
    OK(cuEventRecord(after_a, a));
    OK(cuEventRecord(after_b, b));
    OK(launch(NULL));
    OK(cuEventRecord(end, NULL));
    OK(launch(apart));
    OK(cuEventRecord(after_apart, apart));
    CHECK(cuStreamQuery(a) == CUDA_ERROR_NOT_READY);
    CHECK(cuEventQuery(end) == CUDA_ERROR_NOT_READY);
    OK(launch(b)); /* streams wait for the default one, too */
    CHECK(is_near(since_start(after_b), 0.105));
    CHECK(is_near(since_start(after_a), 0.205));
    CHECK(is_near(since_start(end), 0.305));
    CHECK(is_near(since_start(after_apart), 0.105));
    OK(cuEventRecord(after_b, b));
    CHECK(is_near(since_start(after_b), 0.405));
    OK(cuStreamQuery(a));
    begin();
    OK(launch(a));
    OK(cuEventRecord(after_a, a));
    OK(cuStreamWaitEvent(b, after_a, 0));
    OK(launch(b));
    OK(cuEventRecord(after_b, b));
    CHECK(is_near(since_start(after_b), 0.205));
    OK(cuStreamDestroy_v2(a));
    CHECK(cuStreamSynchronize(a) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(launch(a) == CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy_v2(after_a));
    CHECK(cuEventQuery(after_a) == CUDA_ERROR_INVALID_HANDLE);
    float nothing;
    CUevent never;
    OK(cuEventCreate(&never, 0));
    CHECK(cuEventElapsedTime(&nothing, start, never) == CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventSynchronize(never));
}

static int order[3], calls;

static void note(void *number) { order[calls++] = (int)(intptr_t)number; }

static void write_nine(void *to) { *(int *)to = 9; }

static void functions_of_the_host_come_in_order(void) {
    CUstream stream;
    int *value, back = 0;
    CUdeviceptr memory;
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemAlloc_v2(&memory, 4));
    OK(cuMemHostAlloc((void **)&value, 4, 0));
    *value = 1;
    OK(launch(stream));
    for (intptr_t i = 0; i < 3; i++) OK(cuLaunchHostFunc(stream, note, (void *)i));
    OK(cuLaunchHostFunc(stream, write_nine, value));
    CUDA_MEMCPY2D copy = {.from = {.type = CU_MEMORYTYPE_HOST, .host = value},
                          .to = {.type = CU_MEMORYTYPE_DEVICE, .device = memory},
                          .width_bytes = 4,
                          .height = 1};
    OK(cuMemcpy2D_v2(&copy)); /* on the default stream, which waits */
    OK(cuMemcpyDtoH_v2(&back, memory, 4));
    CHECK(back == 9);
    CHECK(calls == 3 && order[0] == 0 && order[1] == 1 && order[2] == 2);
    OK(cuMemFreeHost(value));
    CHECK(cuMemFreeHost(value) == CUDA_ERROR_INVALID_VALUE);
}

static _Atomic int released;

static void wait_for_release(void *nothing) {
    (void)nothing;
    while (!released) sched_yield();
}

static void a_stream_is_not_done_before_its_functions_of_the_host(void) {
    CUstream stream;
    OK(cuStreamCreate(&stream, 0));
    OK(cuLaunchHostFunc(stream, wait_for_release, NULL));
    CUresult early = cuStreamQuery(stream);
    released = 1;
    CHECK(early == CUDA_ERROR_NOT_READY);
    OK(cuStreamSynchronize(stream));
    OK(cuStreamQuery(stream));
}

static void graphs_keep_what_was_captured(void) {
    CUstream a, b;
    CUevent fork, join;
    CUgraph graph;
    CUgraphExec ready;
    unsigned int before, after;
    size_t count = 0;
    OK(cuStreamCreate(&a, 0));
    OK(cuStreamCreate(&b, 0));
    OK(cuEventCreate(&fork, 0));
    OK(cuEventCreate(&join, 0));
    OK(cuMemcpyDtoH_v2(&before, counter, 4));
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(launch(a));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(launch(a));
    OK(launch(b));
    OK(cuEventRecord(join, b));
    OK(cuStreamWaitEvent(a, join, 0));
    OK(launch(a));
    CHECK(cuStreamSynchronize(a) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cuStreamEndCapture(b, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    OK(cuStreamEndCapture(a, &graph));
    CHECK(cuStreamEndCapture(a, &graph) == CUDA_ERROR_ILLEGAL_STATE);
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 4);
    OK(cuGraphInstantiateWithFlags(&ready, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuMemcpyDtoH_v2(&after, counter, 4));
    CHECK(after == before);
    begin();
    OK(cuGraphLaunch(ready, a));
    OK(cuEventRecord(end, a));
    CHECK(is_near(since_start(end), 0.305)); /* the two in the middle overlap */
    OK(cuMemcpyDtoH_v2(&after, counter, 4));
    CHECK(after == before + 4);
    OK(cuGraphExecDestroy(ready));
    CHECK(cuGraphLaunch(ready, a) == CUDA_ERROR_INVALID_VALUE);
}

static void memory_is_what_it_says(void) {
    CUdeviceptr memory, pitched, base;
    size_t pitch, bytes, free_before, free_after, total;
    unsigned char rows[3][5], line[8];
    unsigned int type = 0;
    int ordinal = -1;
    OK(cuMemGetInfo_v2(&free_before, &total));
    OK(cuMemAlloc_v2(&memory, 1000));
    OK(cuMemGetInfo_v2(&free_after, &total));
    CHECK(free_before - free_after == 1024);
    OK(cuMemGetAddressRange_v2(&base, &bytes, memory + 999));
    CHECK(base == memory && bytes == 1000);
    CHECK(cuMemGetAddressRange_v2(&base, &bytes, memory + 1000) == CUDA_ERROR_NOT_FOUND);
    OK(cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, memory));
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_DEVICE_ORDINAL, memory));
    CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == 0);
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&type) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoD_v2(memory + 990, line, 11) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD8_v2(memory, 0, 1001) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD32_v2(memory + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyHtoD_v2(memory, line, 0));
    OK(cuMemAllocPitch_v2(&pitched, &pitch, 5, 3, 4));
    OK(cuMemsetD8_v2(pitched, 7, pitch * 3));
    OK(cuMemsetD2D16_v2(pitched, pitch, 0x0102, 2, 3));
    CUDA_MEMCPY2D copy = {.from = {.type = CU_MEMORYTYPE_DEVICE, .device = pitched, .pitch = pitch},
                          .to = {.type = CU_MEMORYTYPE_HOST, .host = rows, .pitch = 5},
                          .width_bytes = 5,
                          .height = 3};
    OK(cuMemcpy2D_v2(&copy));
    for (int row = 0; row < 3; row++)
        CHECK(rows[row][0] == 2 && rows[row][1] == 1 && rows[row][3] == 1 && rows[row][4] == 7);
    OK(cuMemHostRegister_v2(line, sizeof line, 0));
    CHECK(cuMemHostRegister_v2(line, sizeof line, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)line, pitched, 5));
    CHECK(line[0] == 2 && line[4] == 7);
    OK(cuMemHostUnregister(line));
    OK(cuMemFree_v2(memory));
    OK(cuMemFree_v2(pitched));
    CHECK(cuMemFree_v2(memory) == CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(0));
    OK(cuMemGetInfo_v2(&free_after, &total));
    CHECK(free_after == free_before);
}

static void contexts_are_stacked_and_end_with_all_they_hold(void) {
    CUcontext other, found;
    CUdeviceptr there, here;
    CUstream stream;
    size_t free_before, free_after, total;
    int value = 5, back = 0;
    OK(cuMemAlloc_v2(&here, 4));
    OK(cuCtxCreate_v2(&other, 0, 1));
    OK(cuCtxGetCurrent(&found));
    CHECK(found == other);
    OK(cuMemGetInfo_v2(&free_before, &total));
    OK(cuMemAlloc_v2(&there, 1 << 20));
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemcpyHtoD_v2(there, &value, 4));
    OK(cuMemcpyPeer(here, context, there, other, 4));
    OK(cuCtxPopCurrent_v2(&found));
    OK(cuMemcpyDtoH_v2(&back, here, 4));
    CHECK(back == 5);
    OK(cuCtxDestroy_v2(other));
    CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuMemcpyDtoH_v2(&back, there, 4) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuCtxSetCurrent(other) == CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxCreate_v2(&other, 0, 1));
    OK(cuMemGetInfo_v2(&free_after, &total));
    CHECK(free_after == free_before);
    OK(cuCtxDestroy_v2(other));
    OK(cuCtxGetCurrent(&found));
    CHECK(found == context);
    CHECK(cuCtxCreate_v2(&other, 0, 2) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuCtxDestroy_v2(context) == CUDA_ERROR_INVALID_CONTEXT); /* the primary one is released instead */
}

static void launches_are_checked(void) {
    void *arguments[] = {&counter};
    CUdeviceptr variable;
    size_t bytes;
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1025, 1, 1, 0, NULL, arguments, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(kernel, 1, 65536, 1, 1, 1, 1, 0, NULL, arguments, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, arguments, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel((CUfunction)module, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuLaunchCooperativeKernel(kernel, 2, 1, 1, 1, 1, 1, 0, NULL, arguments) == CUDA_ERROR_NOT_SUPPORTED);
    size_t size = sizeof counter;
    void *packed[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER, &counter, (void *)CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                      (void *)CU_LAUNCH_PARAM_END};
    unsigned int before, after;
    OK(cuMemcpyDtoH_v2(&before, counter, 4));
    OK(cuLaunchKernel(kernel, 2, 1, 1, 3, 1, 1, 0, NULL, NULL, packed));
    OK(cuMemcpyDtoH_v2(&after, counter, 4));
    CHECK(after == before + 6);
    OK(cuModuleGetGlobal_v2(&variable, &bytes, module, "seen"));
    CHECK(bytes == 4);
    CHECK(cuModuleGetGlobal_v2(&variable, &bytes, module, "unseen") == CUDA_ERROR_NOT_FOUND);
    CHECK(cuTexObjectCreate() == CUDA_ERROR_NOT_SUPPORTED);
}

static void functions_are_found_by_name_and_version(void) {
    void *function, *newest;
    unsigned int status;
    OK(cuGetProcAddress_v2("cuMemAlloc", &function, 13000, 0, &status));
    CHECK(function == (void *)cuMemAlloc_v2 && status == CU_GET_PROC_ADDRESS_SUCCESS);
    OK(cuGetProcAddress_v2("cuMemAlloc", &function, 3010, 0, &status));
    CHECK(function == (void *)cuMemAlloc);
    OK(cuGetProcAddress_v2("cuLaunchKernel", &function, 13000, 0, &status));
    OK(cuGetProcAddress_v2("cuLaunchKernel", &newest, 13000, CU_GET_PROC_ADDRESS_PER_THREAD, &status));
    CHECK(function == (void *)cuLaunchKernel && newest == (void *)cuLaunchKernel_ptsz);
    CHECK(cuGetProcAddress_v2("cuLaunchKernelEx", &function, 11000, 0, &status) == CUDA_ERROR_NOT_FOUND);
    CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT && function == NULL);
    CHECK(cuGetProcAddress_v2("cuNothing", &function, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND);
    CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

enum { THREADS = 8, ROUNDS = 200 };

static void *work(void *argument) {
    CUdeviceptr own;
    CUstream stream;
    unsigned int seen = 0;
    (void)argument;
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < ROUNDS; i++) {
        void *shared[] = {&counter}, *mine[] = {&own};
        OK(cuMemAlloc_v2(&own, 4));
        OK(cuMemsetD8_v2(own, 0, 4));
        OK(cuStreamCreate(&stream, 0));
        OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, shared, NULL));
        OK(cuLaunchKernel_ptsz(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, mine, NULL));
        OK(cuStreamSynchronize_ptsz(NULL));
        OK(cuMemcpyDtoH_v2(&seen, own, 4));
        CHECK(seen == 32);
        OK(cuStreamDestroy_v2(stream));
        OK(cuMemFree_v2(own));
    }
    return NULL;
}

static void threads_do_not_disturb_each_other(void) {
    pthread_t threads[THREADS];
    unsigned int before, after;
    OK(cuMemcpyDtoH_v2(&before, counter, 4));
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(cuMemcpyDtoH_v2(&after, counter, 4));
    CHECK(after == before + THREADS * ROUNDS * 32);
}

int main(void) {
    int count;
    CUstream none;
    CHECK(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuInit(1) == CUDA_ERROR_INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    CHECK(count == 2);
    CHECK(cuStreamCreate(&none, 0) == CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, PTX));
    OK(cuModuleGetFunction(&kernel, module, "k"));
    OK(cuMemAlloc_v2(&counter, 4));
    OK(cuMemsetD32_v2(counter, 0, 1));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
#define CASE(name) {#name, name}
        CASE(streams_overlap_and_the_default_one_waits),
        CASE(functions_of_the_host_come_in_order),
        CASE(a_stream_is_not_done_before_its_functions_of_the_host),
        CASE(graphs_keep_what_was_captured),
        CASE(memory_is_what_it_says),
        CASE(contexts_are_stacked_and_end_with_all_they_hold),
        CASE(launches_are_checked),
        CASE(functions_are_found_by_name_and_version),
        CASE(threads_do_not_disturb_each_other),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cases[i].run();
        puts(cases[i].name);
    }
    OK(cuModuleUnload(module));
    CHECK(launch(NULL) == CUDA_ERROR_INVALID_HANDLE);
    return 0;
}

/* Kernels and graphs. A graph counts as one launch, however many kernels it has. */
#include "launching.h"

void launch_held_up(struct stream_queue *queue) {
    struct gated_gpu *gpu = queue->gpu;
    while (gpuyard_gate_arrive(gpu->client) == 1) {
        queues_drain(gpu, GPUYARD_GATE_PREEMPTED);
        if (gpuyard_gate_wait(gpu->client) != GPUYARD_OK) return;
    }
}

/* A program that got an error has nothing to wait for, and may never synchronise. */
void launch_failed(struct stream_queue *queue) {
    gpuyard_gate_drained(queue->gpu->client, 0, GPUYARD_GATE_PROGRAM, 0);
}

LAUNCHING_BOTH(cuLaunchKernel, stream, (function, x, y, z, bx, by, bz, shared, stream, parameters, extra),
               CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int bx, unsigned int by,
               unsigned int bz, unsigned int shared, CUstream stream, void **parameters, void **extra)

LAUNCHING_BOTH(cuLaunchCooperativeKernel, stream, (function, x, y, z, bx, by, bz, shared, stream, parameters),
               CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int bx, unsigned int by,
               unsigned int bz, unsigned int shared, CUstream stream, void **parameters)

LAUNCHING_BOTH(cuLaunchKernelEx, config == NULL ? NULL : config->stream, (config, function, parameters, extra),
               const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)

LAUNCHING_BOTH(cuGraphLaunch, stream, (graph, stream), CUgraphExec graph, CUstream stream)

LAUNCHING(cuLaunch, CU_STREAM_LEGACY, (function), CUfunction function)
LAUNCHING(cuLaunchGrid, CU_STREAM_LEGACY, (function, width, height), CUfunction function, int width, int height)
LAUNCHING(cuLaunchGridAsync, named_stream(stream), (function, width, height, stream), CUfunction function, int width,
          int height, CUstream stream)

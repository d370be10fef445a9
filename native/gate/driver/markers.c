/* For programs that know where their jobs begin and end: gpuyard.sharing calls these if the library is loaded. */
#include "process.h"

GPUYARD_GATE_API int gpuyard_gate_begin_program_job(void) {
    struct gated_gpu *gpu = is_gated() ? current_gpu() : NULL;
    return gpu == NULL ? GPUYARD_ERROR_NO_SUCH_GPU : gpuyard_gate_begin_job(gpu->client);
}

GPUYARD_GATE_API int gpuyard_gate_end_program_job(void) {
    struct gated_gpu *gpu = is_gated() ? current_gpu() : NULL;
    return gpu == NULL ? GPUYARD_ERROR_NO_SUCH_GPU : gpuyard_gate_end_job(gpu->client);
}

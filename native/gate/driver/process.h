/* This process in its group: the GPUs that it uses, and whether it is gated at all. */
#ifndef GPUYARD_GATE_PROCESS_H
#define GPUYARD_GATE_PROCESS_H

#include <pthread.h>

#include "../fast.h"
#include "real_driver.h"

struct stream_queue;

/* This process at one GPU. It lasts as long as the process. */
struct gated_gpu {
    CUdevice device;
    struct gpuyard_gate_client *client;
    struct client_record *record;
    struct stream_queue *streams; /* all that were ever launched on; changed under the table's lock */
};

/* Not 0 while this thread is inside the driver or the gate: what the driver calls of itself is not the program's. */
extern _Thread_local unsigned int inside __attribute__((tls_model("initial-exec")));

/* Grows whenever a handle of the driver may come to mean something else: what is remembered by handle is forgotten. */
extern _Atomic uint64_t handles_changed;

enum gate_mode { MODE_UNKNOWN, MODE_ON, MODE_OFF };
extern _Atomic int gate_mode;

/* Reads the environment and joins the group, once; said in one line if that is impossible. */
bool process_joins(void);

/* Whether the program's call concerns the gate. */
static inline bool is_gated(void) {
    int mode = atomic_load_explicit(&gate_mode, memory_order_relaxed);
    return mode != MODE_OFF && inside == 0 && (mode == MODE_ON || process_joins());
}

/* This process at a GPU, connected when first asked for; NULL if it cannot be. */
struct gated_gpu *gpu_of_device(CUdevice device);
struct gated_gpu *gpu_of_context(CUcontext context);

/* The GPU of the thread's context; NULL without one. */
struct gated_gpu *current_gpu(void);
CUcontext current_context(void);

/* Makes a context the thread's for a moment; false if that is impossible. */
bool push_context(CUcontext context);
void pop_context(void);

#endif

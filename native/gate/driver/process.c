/* Joining the group when the program first does anything that concerns it. */
#define _GNU_SOURCE
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "allocations.h"
#include "captures.h"
#include "streams.h"

#define MOST_DEVICES 64

_Thread_local unsigned int inside;
_Atomic uint64_t handles_changed = 1;
_Atomic int gate_mode = MODE_UNKNOWN;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct gpuyard_gate *gate;
static struct gpuyard_gate_request request;
static struct gated_gpu *_Atomic gpus[MOST_DEVICES];

static void say_ungated(const char *why) { fprintf(stderr, "gpuyard: this program is not gated: %s\n", why); }

static void forget(void) {
    pthread_mutex_init(&mutex, NULL);
    gate = NULL; /* the parent's: it cannot be used, nor freed while threads of the parent might */
    gate_mode = MODE_UNKNOWN;
    handles_changed++;
    captures = 0;
    for (int i = 0; i < MOST_DEVICES; i++) gpus[i] = NULL;
    driver_forget();
    queues_forget();
    allocations_forget();
}

/* From the beginning: a thread may fork while another is joining. */
__attribute__((constructor(GPUYARD_FORKS_FIRST + 1))) static void follow_forks(void) { pthread_atfork(NULL, NULL, forget); }

static enum gate_mode join(void) {
    const char *group, *wrong = gpuyard_gate_read_environment(&group, &request);
    if (group == NULL) return MODE_OFF;
    int error = wrong == NULL ? gpuyard_gate_open(group, &gate) : GPUYARD_OK;
    if (error != GPUYARD_OK) wrong = gpuyard_gate_error_text(error);
    if (wrong != NULL) say_ungated(wrong);
    return wrong == NULL ? MODE_ON : MODE_OFF;
}

bool process_joins(void) {
    pthread_mutex_lock(&mutex);
    if (gate_mode == MODE_UNKNOWN) gate_mode = join();
    pthread_mutex_unlock(&mutex);
    return gate_mode == MODE_ON;
}

/* At its end a program leaves by itself; one that is killed leaves by its locks. */
__attribute__((destructor)) static void leave(void) {
    pthread_mutex_lock(&mutex);
    gate_mode = MODE_OFF;
    if (gate != NULL) gpuyard_gate_close(gate);
    pthread_mutex_unlock(&mutex);
}

static CUresult uuid_of(CUdevice device, CUuuid *uuid) {
    CUresult result = DRIVER_CALL(cuDeviceGetUuid_v2, (CUuuid *, CUdevice), uuid, device);
    return result == CUDA_SUCCESS ? result : DRIVER_CALL(cuDeviceGetUuid, (CUuuid *, CUdevice), uuid, device);
}

/* All processes know a GPU by its UUID, whatever number it has for each. */
static bool write_key(CUdevice device, char key[GPUYARD_GATE_KEY_BYTES]) {
    CUuuid uuid;
    if (uuid_of(device, &uuid) != CUDA_SUCCESS) return false;
    int length = snprintf(key, GPUYARD_GATE_KEY_BYTES, "GPU-");
    for (int i = 0; i < 16; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        length += snprintf(key + length, (size_t)(GPUYARD_GATE_KEY_BYTES - length), "%s%02x", dash, uuid.bytes[i]);
    }
    return true;
}

static struct gated_gpu *connect_to(CUdevice device) {
    char key[GPUYARD_GATE_KEY_BYTES];
    struct gated_gpu *made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    made->device = device;
    int error = write_key(device, key) ? gpuyard_gate_connect(gate, key, &request, &made->client) : GPUYARD_ERROR_NO_SUCH_GPU;
    if (error == GPUYARD_OK) {
        struct gpuyard_gate_words words;
        gpuyard_gate_words(made->client, &words);
        made->record = (struct client_record *)(uintptr_t)words.stop; /* a record begins with its stop word */
        return made;
    }
    say_ungated(gpuyard_gate_error_text(error));
    gate_mode = MODE_OFF;
    free(made);
    return NULL;
}

struct gated_gpu *gpu_of_device(CUdevice device) {
    if (device < 0 || device >= MOST_DEVICES) return NULL;
    struct gated_gpu *found = gpus[device];
    if (found != NULL) return found;
    inside++;
    pthread_mutex_lock(&mutex);
    if (gpus[device] == NULL && gate_mode == MODE_ON) gpus[device] = connect_to(device);
    found = gpus[device];
    pthread_mutex_unlock(&mutex);
    inside--;
    return found;
}

CUcontext current_context(void) {
    CUcontext context = NULL;
    return DRIVER_CALL(cuCtxGetCurrent, (CUcontext *), &context) == CUDA_SUCCESS ? context : NULL;
}

bool push_context(CUcontext context) {
    return DRIVER_CALL(cuCtxPushCurrent_v2, (CUcontext), context) == CUDA_SUCCESS;
}

void pop_context(void) {
    CUcontext popped;
    DRIVER_CALL(cuCtxPopCurrent_v2, (CUcontext *), &popped);
}

struct gated_gpu *current_gpu(void) {
    CUdevice device;
    inside++;
    CUresult result = DRIVER_CALL(cuCtxGetDevice, (CUdevice *), &device);
    inside--;
    return result == CUDA_SUCCESS ? gpu_of_device(device) : NULL;
}

struct gated_gpu *gpu_of_context(CUcontext context) {
    struct gated_gpu *found = NULL;
    inside++;
    if (push_context(context)) {
        found = current_gpu();
        pop_context();
    }
    inside--;
    return found;
}

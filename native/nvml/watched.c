/* Watches a node: the one that the program means when it first asks, and its successor when it has ended and come
 * back. */
#define _GNU_SOURCE
#include "watched.h"

#include <pthread.h>
#include <stddef.h>

#define FIRST_HANDLE ((uintptr_t)0x6770751)
#define HANDLE_STEP 2 /* odd numbers only: no object is there */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static unsigned int users;
static struct gpuyard_node *node;

static nvmlReturn_t meaning(int error) {
    switch (error) {
        case GPUYARD_OK: return NVML_SUCCESS;
        case GPUYARD_ERROR_NO_SUCH_GPU: return NVML_ERROR_INVALID_ARGUMENT;
        case GPUYARD_ERROR_VERSION: return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
        case GPUYARD_ERROR_OWNER: return NVML_ERROR_NO_PERMISSION;
        case GPUYARD_ERROR_CLOSED:
        case GPUYARD_ERROR_FORKED: return NVML_ERROR_GPU_IS_LOST;
        default: return NVML_ERROR_DRIVER_NOT_LOADED;
    }
}

/* A node that has ended leaves a file without a name, and a forked child has lost its parent's: should there be one of
 * the name again, go on with that. */
static void follow(void) {
    struct gpuyard_node *found;
    if (node == NULL || gpuyard_is_current(node) || gpuyard_watch(NULL, &found) != GPUYARD_OK) return;
    gpuyard_destroy(node);
    node = found;
}

static void hold(void) { pthread_mutex_lock(&gate); }

static void let_go(void) { pthread_mutex_unlock(&gate); }

__attribute__((constructor(GPUYARD_FORKS_FIRST + 1))) static void survive_forks(void) {
    pthread_atfork(hold, let_go, let_go);
}

/* Begins and ends every question: threads ask one after the other, as the node may change under them. */
static nvmlReturn_t begin(void) {
    hold();
    follow();
    if (node != NULL) return NVML_SUCCESS;
    let_go();
    return NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t end(int error) {
    let_go();
    return meaning(error);
}

nvmlReturn_t node_open(void) {
    hold();
    int error = users == 0 ? gpuyard_watch(NULL, &node) : GPUYARD_OK;
    if (error == GPUYARD_OK) users++;
    return end(error);
}

nvmlReturn_t node_close(void) {
    nvmlReturn_t result = begin();
    if (result != NVML_SUCCESS) return result;
    if (--users == 0) {
        gpuyard_destroy(node);
        node = NULL;
    }
    return end(GPUYARD_OK);
}

nvmlReturn_t node_description(struct gpuyard_description *about) {
    nvmlReturn_t result = begin();
    return result == NVML_SUCCESS ? end(gpuyard_describe(node, about)) : result;
}

nvmlReturn_t node_gpu(unsigned int index, struct watched_gpu *gpu) {
    nvmlReturn_t result = begin();
    return result == NVML_SUCCESS ? end(gpuyard_describe_gpu(node, index, &gpu->about, gpu->uuid)) : result;
}

nvmlReturn_t node_gpu_use(unsigned int index, struct gpuyard_gpu_view *use) {
    nvmlReturn_t result = begin();
    return result == NVML_SUCCESS ? end(gpuyard_look(node, index, gpuyard_now(node), use)) : result;
}

nvmlDevice_t node_handle(unsigned int index) { return (nvmlDevice_t)(FIRST_HANDLE + HANDLE_STEP * (uintptr_t)index); }

nvmlReturn_t node_index(nvmlDevice_t device, unsigned int *index) {
    struct gpuyard_description about;
    nvmlReturn_t result = node_description(&about);
    if (result != NVML_SUCCESS) return result;
    uintptr_t distance = (uintptr_t)device - FIRST_HANDLE;
    *index = (unsigned int)(distance / HANDLE_STEP);
    bool is_one = (uintptr_t)device >= FIRST_HANDLE && distance % HANDLE_STEP == 0;
    return is_one && distance / HANDLE_STEP < about.gpu_count ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

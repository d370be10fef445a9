/* Who may use a GPU, and with how much of its memory. */
#include "node_handle.h"
#include "rates.h"

#define WHOLE 1000 /* shares count in thousandths, as in gpuyard/core/grants.py */

/* Rounded down: seven sevenths fit on a GPU. Even the smallest share takes something, and nonsense counts as none. */
static unsigned int thousandths(double share) {
    if (!(share > 0)) return 0;
    if (share >= 1) return WHOLE;
    unsigned int whole = (unsigned int)(share * WHOLE + 1e-6);
    return whole > 0 ? whole : 1;
}

static unsigned int thousandths_left(const struct shared_gpu *gpu) {
    unsigned int taken = 0;
    for (unsigned int client = 0; client < GPUYARD_MOST_CLIENTS; client++)
        if (is_connected(gpu, client))
            taken += thousandths(held_share(&gpu->node->sharing, gpu->record->clients[client].share));
    return taken < WHOLE ? WHOLE - taken : 0;
}

static int check_room(const struct shared_gpu *gpu, const struct gpuyard_terms *terms) {
    const struct gpuyard_gpu *about = &gpu->record->about;
    if (thousandths(held_share(&gpu->node->sharing, terms->share)) > thousandths_left(gpu))
        return GPUYARD_ERROR_SHARE_TAKEN;
    uint64_t used = shared_gpu_memory_used(gpu);
    if (used > about->memory_bytes || about->context_bytes > about->memory_bytes - used)
        return GPUYARD_ERROR_MEMORY_TAKEN;
    return GPUYARD_OK;
}

int gpuyard_share_left(struct gpuyard_node *node, unsigned int gpu, double *left) {
    if (gpu >= node->about.gpu_count) return GPUYARD_ERROR_NO_SUCH_GPU;
    int error = shared_gpu_lock(&node->gpus[gpu]);
    if (error != GPUYARD_OK) return error;
    shared_gpu_reap(&node->gpus[gpu], gpuyard_now(node));
    *left = (double)thousandths_left(&node->gpus[gpu]) / WHOLE;
    shared_gpu_unlock(&node->gpus[gpu]);
    return GPUYARD_OK;
}

static bool is_part(double part) { return part > 0 && part <= 1; }

/* Where the policy promises a part of the GPU, it is also the part of the memory; the context comes out of it. */
static uint64_t limit_on(const struct shared_gpu *gpu, const struct gpuyard_terms *terms) {
    const struct gpuyard_gpu *about = &gpu->record->about;
    uint64_t limit = terms->memory_limit == UINT64_MAX ? about->memory_bytes : terms->memory_limit;
    double held = held_share(&gpu->node->sharing, terms->share);
    if (!(held > 0)) return limit;
    uint64_t part = (uint64_t)(held * (double)about->memory_bytes);
    uint64_t promised = part > about->context_bytes ? part - about->context_bytes : 0;
    return promised < limit ? promised : limit;
}

static int take_place(struct shared_gpu *gpu, double now, const struct gpuyard_terms *terms) {
    double clock = shared_gpu_reap(gpu, now);
    struct gpuyard_terms granted = *terms;
    granted.memory_limit = limit_on(gpu, terms);
    int error = check_room(gpu, terms);
    return error == GPUYARD_OK ? shared_gpu_connect(gpu, clock, &granted) : error;
}

int gpuyard_connect(struct gpuyard_node *node, unsigned int gpu, const struct gpuyard_terms *terms,
                    struct gpuyard_client **client) {
    if (gpu >= node->about.gpu_count) return GPUYARD_ERROR_NO_SUCH_GPU;
    if (!is_part(terms->share)) return GPUYARD_ERROR_SHARE;
    if (!is_part(terms->demand)) return GPUYARD_ERROR_DEMAND;
    struct shared_gpu *shared = &node->gpus[gpu];
    int number = shared_gpu_lock(shared);
    if (number != GPUYARD_OK) return number;
    number = take_place(shared, gpuyard_now(node), terms);
    if (number >= 0 && (*client = client_make(node, shared, (unsigned int)number)) == NULL) {
        shared_gpu_disconnect(shared, (unsigned int)number, gpuyard_now(node));
        number = GPUYARD_ERROR_SYSTEM;
    }
    shared_gpu_unlock(shared);
    return number < 0 ? number : GPUYARD_OK;
}

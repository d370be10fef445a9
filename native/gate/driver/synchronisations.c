/* Synchronisations, by waiting or by asking. */
#include "synchronising.h"

#include "captures.h"
#include "window.h"

void synchronised(struct gated_gpu *gpu, uint64_t claimed) {
    inside++;
    uint64_t others = gpu->record->queued == claimed ? 0 : queues_claim_done(gpu);
    gpuyard_gate_drained(gpu->client, claimed + others, GPUYARD_GATE_PROGRAM, 0);
    inside--;
}

/* Of one stream: what is queued is claimed before, and given back if it is not done. */
#define OF_STREAM(name, named)                                            \
    EXPORT CUresult name(CUstream stream) {                               \
        __typeof__(&name) real = REAL(name);                              \
        bool concerned = is_gated() && !is_capturing(named);              \
        struct stream_queue *queue = concerned ? queue_of(named) : NULL;  \
        if (queue == NULL) return real(stream);                           \
        inside++;                                                         \
        uint64_t claimed = queue_claim(queue);                            \
        CUresult result = real(stream);                                   \
        inside--;                                                         \
        if (!tells_done(result)) {                                        \
            queue->queued += claimed;                                     \
            return result;                                                \
        }                                                                 \
        window_begins_anew(queue);                                        \
        synchronised(queue->gpu, claimed);                                \
        return result;                                                    \
    }

OF_STREAM(cuStreamSynchronize, named_stream(stream))
OF_STREAM(cuStreamSynchronize_ptsz, named_stream_ptsz(stream))
OF_STREAM(cuStreamQuery, named_stream(stream))
OF_STREAM(cuStreamQuery_ptsz, named_stream_ptsz(stream))

/* Of an event: nobody knows what came before it, so the driver is asked. */
#define OF_EVENT(name)                                                    \
    EXPORT CUresult name(CUevent event) {                                 \
        __typeof__(&name) real = REAL(name);                              \
        if (!is_gated()) return real(event);                              \
        inside++;                                                         \
        CUresult result = real(event);                                    \
        inside--;                                                         \
        struct gated_gpu *gpu = tells_done(result) ? current_gpu() : NULL; \
        if (gpu != NULL) synchronised(gpu, 0);                            \
        return result;                                                    \
    }

OF_EVENT(cuEventSynchronize)
OF_EVENT(cuEventQuery)

/* Of a context: all of its streams. */
#define OF_CONTEXT(name, context_wanted, arguments, ...)                                       \
    EXPORT CUresult name(__VA_ARGS__) {                                                        \
        __typeof__(&name) real = REAL(name);                                                   \
        CUcontext wanted = is_gated() ? context_wanted : NULL;                                 \
        struct gated_gpu *gpu = wanted == NULL ? NULL : gpu_of_context(wanted);                \
        if (gpu == NULL) return real arguments;                                                \
        inside++;                                                                              \
        uint64_t claimed = queues_claim(gpu, wanted);                                          \
        CUresult result = real arguments;                                                      \
        inside--;                                                                              \
        if (tells_done(result)) synchronised(gpu, claimed);                                    \
        else queues_put_back(gpu, wanted, claimed);                                            \
        return result;                                                                         \
    }

OF_CONTEXT(cuCtxSynchronize, current_context(), (), void)
OF_CONTEXT(cuCtxSynchronize_v2, context == NULL ? current_context() : context, (context), CUcontext context)

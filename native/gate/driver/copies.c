/* Copies. Those that are queued are launches like any other. Of the others nobody knows how much is done when they return:
 * small ones from the host may still be under way. So the driver is asked, and if nothing is left the job is done. */
#include "launching.h"
#include "synchronising.h"

LAUNCHING_BOTH(cuMemcpyAsync, stream, (to, from, bytes, stream), CUdeviceptr to, CUdeviceptr from, size_t bytes,
               CUstream stream)
LAUNCHING_BOTH(cuMemcpyPeerAsync, stream, (to, to_context, from, from_context, bytes, stream), CUdeviceptr to,
               CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)
LAUNCHING_BOTH(cuMemcpyHtoDAsync_v2, stream, (to, from, bytes, stream), CUdeviceptr to, const void *from, size_t bytes,
               CUstream stream)
LAUNCHING_BOTH(cuMemcpyDtoHAsync_v2, stream, (to, from, bytes, stream), void *to, CUdeviceptr from, size_t bytes,
               CUstream stream)
LAUNCHING_BOTH(cuMemcpyDtoDAsync_v2, stream, (to, from, bytes, stream), CUdeviceptr to, CUdeviceptr from, size_t bytes,
               CUstream stream)
LAUNCHING_BOTH(cuMemcpyHtoAAsync_v2, stream, (to, offset, from, bytes, stream), CUarray to, size_t offset,
               const void *from, size_t bytes, CUstream stream)
LAUNCHING_BOTH(cuMemcpyAtoHAsync_v2, stream, (to, from, offset, bytes, stream), void *to, CUarray from, size_t offset,
               size_t bytes, CUstream stream)
LAUNCHING_BOTH(cuMemcpy2DAsync_v2, stream, (copy, stream), const CUDA_MEMCPY2D *copy, CUstream stream)
LAUNCHING_BOTH(cuMemcpy3DAsync_v2, stream, (copy, stream), const CUDA_MEMCPY3D *copy, CUstream stream)
LAUNCHING_BOTH(cuMemcpy3DPeerAsync, stream, (copy, stream), const void *copy, CUstream stream)

/* A copy that the program waits for, on its default stream. */
#define COPYING(name, default_stream, arguments, ...)              \
    EXPORT CUresult name(__VA_ARGS__) {                            \
        __typeof__(&name) real = REAL(name);                       \
        struct stream_queue *queue = launch_queue(default_stream); \
        if (queue == NULL) return real arguments;                  \
        launch_begins(queue);                                      \
        CUresult result = real arguments;                          \
        launch_ends(queue, result);                                \
        synchronised(queue->gpu, 0);                               \
        return result;                                             \
    }

#define COPYING_BOTH(name, arguments, ...)                                   \
    COPYING(name, CU_STREAM_LEGACY, arguments, __VA_ARGS__)                  \
    COPYING(name##_ptds, CU_STREAM_PER_THREAD, arguments, __VA_ARGS__)

COPYING_BOTH(cuMemcpy, (to, from, bytes), CUdeviceptr to, CUdeviceptr from, size_t bytes)
COPYING_BOTH(cuMemcpyPeer, (to, to_context, from, from_context, bytes), CUdeviceptr to, CUcontext to_context,
             CUdeviceptr from, CUcontext from_context, size_t bytes)
COPYING_BOTH(cuMemcpyHtoD_v2, (to, from, bytes), CUdeviceptr to, const void *from, size_t bytes)
COPYING_BOTH(cuMemcpyDtoH_v2, (to, from, bytes), void *to, CUdeviceptr from, size_t bytes)
COPYING_BOTH(cuMemcpyDtoD_v2, (to, from, bytes), CUdeviceptr to, CUdeviceptr from, size_t bytes)
COPYING_BOTH(cuMemcpyDtoA_v2, (to, offset, from, bytes), CUarray to, size_t offset, CUdeviceptr from, size_t bytes)
COPYING_BOTH(cuMemcpyAtoD_v2, (to, from, offset, bytes), CUdeviceptr to, CUarray from, size_t offset, size_t bytes)
COPYING_BOTH(cuMemcpyHtoA_v2, (to, offset, from, bytes), CUarray to, size_t offset, const void *from, size_t bytes)
COPYING_BOTH(cuMemcpyAtoH_v2, (to, from, offset, bytes), void *to, CUarray from, size_t offset, size_t bytes)
COPYING_BOTH(cuMemcpyAtoA_v2, (to, to_offset, from, from_offset, bytes), CUarray to, size_t to_offset, CUarray from,
             size_t from_offset, size_t bytes)
COPYING_BOTH(cuMemcpy2D_v2, (copy), const CUDA_MEMCPY2D *copy)
COPYING_BOTH(cuMemcpy2DUnaligned_v2, (copy), const CUDA_MEMCPY2D *copy)
COPYING_BOTH(cuMemcpy3D_v2, (copy), const CUDA_MEMCPY3D *copy)
COPYING_BOTH(cuMemcpy3DPeer, (copy), const void *copy)

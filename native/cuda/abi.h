/* The part of the driver API's binary interface that this library answers: codes, handles and structures. */
#ifndef GPUYARD_CUDA_ABI_H
#define GPUYARD_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* What a driver that knows every emulated kind of GPU would say; native/nvml says the same. */
#define DRIVER_CUDA_VERSION 13000

typedef enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_FILE_NOT_FOUND = 301,
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    CUDA_ERROR_CAPTURED_EVENT = 907,
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
    CUDA_ERROR_UNKNOWN = 999,
} CUresult;

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct library *CUlibrary;
typedef struct function *CUkernel; /* both kinds of handle name one function, so either may be launched */
typedef struct link *CUlinkState;
typedef struct memory_pool *CUmemoryPool;
typedef struct graph *CUgraph;
typedef struct graph_node *CUgraphNode;
typedef struct graph_exec *CUgraphExec;
typedef struct user_object *CUuserObject;
typedef struct array *CUarray;

typedef void (*CUhostFn)(void *data);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *data);

#define CU_STREAM_LEGACY ((CUstream)1)
#define CU_STREAM_PER_THREAD ((CUstream)2)

enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4 };
enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3, CU_MEMORYTYPE_UNIFIED = 4 };
enum { CU_DEVICE_CPU = -1, CU_DEVICE_INVALID = -2 };
enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum { CU_GET_PROC_ADDRESS_PER_THREAD = 2 };
enum { CU_GET_PROC_ADDRESS_SUCCESS, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT };
enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_SIZE = 6 };
enum { CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_PTX, CU_JIT_INPUT_FATBINARY, CU_JIT_INPUT_OBJECT, CU_JIT_INPUT_LIBRARY };
enum { CU_LAUNCH_PARAM_END, CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE };
enum { CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4 };
enum { CU_GRAPH_NODE_KERNEL, CU_GRAPH_NODE_MEMCPY, CU_GRAPH_NODE_MEMSET, CU_GRAPH_NODE_HOST, CU_GRAPH_NODE_EMPTY = 5 };
enum { CU_USER_OBJECT_NO_DESTRUCTOR_SYNC = 1, CU_GRAPH_USER_OBJECT_MOVE = 1 };
enum { CU_CAPTURE_NONE, CU_CAPTURE_ACTIVE };

enum {
    CU_FUNC_MAX_THREADS_PER_BLOCK,
    CU_FUNC_SHARED_BYTES,
    CU_FUNC_CONST_BYTES,
    CU_FUNC_LOCAL_BYTES,
    CU_FUNC_REGISTERS,
    CU_FUNC_PTX_VERSION,
    CU_FUNC_BINARY_VERSION,
    CU_FUNC_CACHE_MODE,
    CU_FUNC_MAX_DYNAMIC_SHARED,
    CU_FUNC_CARVEOUT,
    CU_FUNC_ATTRIBUTE_COUNT = 16,
};

enum {
    CU_POOL_RELEASE_THRESHOLD = 4,
    CU_POOL_RESERVED_CURRENT,
    CU_POOL_RESERVED_HIGH,
    CU_POOL_USED_CURRENT,
    CU_POOL_USED_HIGH,
};

enum {
    CU_POINTER_CONTEXT = 1,
    CU_POINTER_MEMORY_TYPE,
    CU_POINTER_DEVICE_POINTER,
    CU_POINTER_HOST_POINTER,
    CU_POINTER_SYNC_MEMOPS = 6,
    CU_POINTER_BUFFER_ID,
    CU_POINTER_IS_MANAGED,
    CU_POINTER_DEVICE_ORDINAL,
    CU_POINTER_IPC_CAPABLE,
    CU_POINTER_RANGE_START,
    CU_POINTER_RANGE_SIZE,
    CU_POINTER_MAPPED,
    CU_POINTER_HANDLE_TYPES,
    CU_POINTER_RDMA_CAPABLE,
    CU_POINTER_ACCESS_FLAGS,
    CU_POINTER_POOL,
    CU_POINTER_MAPPING_SIZE,
    CU_POINTER_MAPPING_BASE,
    CU_POINTER_BLOCK_ID,
};

typedef struct {
    unsigned char bytes[16];
} CUuuid;

typedef struct {
    int max_threads_per_block, max_block[3], max_grid[3], shared_per_block, constant_bytes, warp, pitch, registers, khz,
        texture_alignment;
} CUdevprop;

typedef struct {
    size_t x_bytes, y;
    unsigned int type;
    void *host;
    CUdeviceptr device;
    CUarray array;
    size_t pitch;
} copy_side_2d;

typedef struct {
    copy_side_2d from, to;
    size_t width_bytes, height;
} CUDA_MEMCPY2D;

typedef struct {
    size_t x_bytes, y, z, level;
    unsigned int type;
    void *host;
    CUdeviceptr device;
    CUarray array;
    CUcontext context; /* only of copies between GPUs; reserved in others */
    size_t pitch, height;
} copy_side_3d;

typedef struct {
    copy_side_3d from, to;
    size_t width_bytes, height, depth;
} CUDA_MEMCPY3D;

typedef struct {
    unsigned int id;
    union {
        char bytes[64];
        int cooperative;
        unsigned int cluster[3];
        uint64_t aligned;
    } value;
} CUlaunchAttribute;

typedef struct {
    unsigned int grid[3], block[3], shared_bytes;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned int attribute_count;
} CUlaunchConfig;

typedef struct {
    unsigned int type;
    int id;
} CUmemLocation;

typedef struct {
    unsigned int allocation_type, handle_types;
    CUmemLocation location;
    void *security;
    size_t max_size;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
    CUmemLocation location;
    unsigned int flags;
} CUmemAccessDesc;

typedef struct {
    CUfunction function;
    unsigned int grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    CUkernel kernel; /* this and what follows only in version 2 */
    CUcontext context;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct {
    CUdeviceptr to;
    size_t pitch;
    unsigned int value, element_bytes;
    size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct {
    CUhostFn call;
    void *data;
} CUDA_HOST_NODE_PARAMS;

typedef struct {
    uint64_t flags;
    CUstream upload_stream;
    CUgraphNode error_node;
    unsigned int result;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct {
    unsigned int result;
    CUgraphNode error_node, error_from_node;
} CUgraphExecUpdateResultInfo;

typedef struct {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

_Static_assert(sizeof(CUDA_MEMCPY2D) == 128, "CUDA_MEMCPY2D");
_Static_assert(sizeof(CUDA_MEMCPY3D) == 200, "CUDA_MEMCPY3D");
_Static_assert(sizeof(CUlaunchAttribute) == 72, "CUlaunchAttribute");
_Static_assert(sizeof(CUlaunchConfig) == 56, "CUlaunchConfig");
_Static_assert(sizeof(CUmemPoolProps) == 88, "CUmemPoolProps");
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72, "CUDA_KERNEL_NODE_PARAMS_v2");

#endif

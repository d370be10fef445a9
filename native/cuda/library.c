/* The library itself: starting, versions, errors, and finding its functions by name. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "message.h"
#include "unsupported.h"

EXPORT CUresult cuInit(unsigned int flags) { return flags == 0 ? machine_open() : CUDA_ERROR_INVALID_VALUE; }

EXPORT CUresult cuDriverGetVersion(int *version) {
    if (version == NULL) return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult unsupported(const char *name) {
    trace_once("%s is not supported", name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

static const struct {
    CUresult code;
    const char *name, *text;
} ERRORS[] = {
#define ERROR(name, text) {CUDA_##name, "CUDA_" #name, text}
    ERROR(SUCCESS, "no error"),
    ERROR(ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    ERROR(ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR(ERROR_FILE_NOT_FOUND, "file not found"),
    ERROR(ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    ERROR(ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    ERROR(ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR(ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(ERROR_NOT_READY, "device not ready"),
    ERROR(ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    ERROR(ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    ERROR(ERROR_PRIMARY_CONTEXT_ACTIVE, "primary context is in use"),
    ERROR(ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ERROR(ERROR_ASSERT, "device-side assert triggered"),
    ERROR(ERROR_HOST_MEMORY_ALREADY_REGISTERED, "this memory is already registered"),
    ERROR(ERROR_HOST_MEMORY_NOT_REGISTERED, "this memory is not registered"),
    ERROR(ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(ERROR_NOT_PERMITTED, "operation not permitted"),
    ERROR(ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR(ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"),
    ERROR(ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was not begun on this stream"),
    ERROR(ERROR_STREAM_CAPTURE_IMPLICIT, "operation would depend on a capturing stream"),
    ERROR(ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed: its shape has changed"),
    ERROR(ERROR_UNKNOWN, "unknown error"),
#undef ERROR
};

/* Errors that this library never returns have no text here. */
EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    if (text == NULL) return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == error) *text = ERRORS[i].text;
    return *text == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
    if (name == NULL) return CUDA_ERROR_INVALID_VALUE;
    *name = NULL;
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == error) *name = ERRORS[i].name;
    return *name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Whether a function's name is `base`, with or without a version; and whether it is one with a default stream a thread.
 */
static bool is_version_of(const char *name, const char *base, bool *per_thread) {
    size_t length = strlen(base);
    if (strncmp(name, base, length) != 0) return false;
    const char *rest = name + length;
    if (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '0' && rest[2] <= '9') rest += 3;
    *per_thread = strcmp(rest, "_ptsz") == 0 || strcmp(rest, "_ptds") == 0;
    return *rest == '\0' || *per_thread;
}

/* Finds the newest function of a name that is not newer than what the caller was written for. */
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                    unsigned int *status) {
    if (name == NULL || function == NULL) return CUDA_ERROR_INVALID_VALUE;
    bool known = false;
    int best = -1;
    *function = NULL;
    for (const struct driver_function *each = DRIVER_FUNCTIONS; each->name != NULL; each++) {
        bool per_thread;
        if (!is_version_of(each->name, name, &per_thread)) continue;
        known = true;
        if (each->since > version || (per_thread && (flags & CU_GET_PROC_ADDRESS_PER_THREAD) == 0)) continue;
        if (2 * each->since + per_thread <= best) continue;
        best = 2 * each->since + per_thread;
        *function = each->address;
    }
    if (status != NULL)
        *status = *function != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known           ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                    : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

/* The tables that NVIDIA's own runtime asks for are private to it. */
EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *which) {
    (void)which;
    if (table != NULL) *table = NULL;
    trace_once("cuGetExportTable: NVIDIA's runtime asks for private tables, which there are not");
    return CUDA_ERROR_NOT_FOUND;
}

/* Captures begin and end here; a launch has to ask about its stream only in between. */
#include "captures.h"

#include "streams.h"

_Atomic int captures;

bool is_capturing(CUstream stream) {
    int status = CU_CAPTURE_NONE;
    if (!captures_under_way()) return false;
    inside++;
    CUresult result = DRIVER_CALL(cuStreamIsCapturing, (CUstream, int *), stream, &status);
    inside--;
    return result == CUDA_SUCCESS && status != CU_CAPTURE_NONE;
}

int relax_captures(int mode) {
    DRIVER_CALL(cuThreadExchangeStreamCaptureMode, (int *), &mode);
    return mode;
}

static CUresult begun(CUresult result) {
    if (result == CUDA_SUCCESS) captures++;
    return result;
}

#define BEGIN(name, arguments, ...) \
    EXPORT CUresult name(__VA_ARGS__) { return begun(REAL(name) arguments); }

BEGIN(cuStreamBeginCapture, (stream), CUstream stream)
BEGIN(cuStreamBeginCapture_ptsz, (stream), CUstream stream)
BEGIN(cuStreamBeginCapture_v2, (stream, mode), CUstream stream, int mode)
BEGIN(cuStreamBeginCapture_v2_ptsz, (stream, mode), CUstream stream, int mode)
BEGIN(cuStreamBeginCaptureToGraph, (stream, graph, from, edges, count, mode), CUstream stream, CUgraph graph,
      const CUgraphNode *from, const void *edges, size_t count, int mode)
BEGIN(cuStreamBeginCaptureToGraph_ptsz, (stream, graph, from, edges, count, mode), CUstream stream, CUgraph graph,
      const CUgraphNode *from, const void *edges, size_t count, int mode)

/* Also one that has failed is over once its end was asked for; an end without a beginning is refused. */
static CUresult ended(bool was_capturing, CUresult result) {
    if (was_capturing) captures--;
    return result;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    bool was_capturing = is_capturing(named_stream(stream));
    return ended(was_capturing, REAL(cuStreamEndCapture)(stream, graph));
}

EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    bool was_capturing = is_capturing(named_stream_ptsz(stream));
    return ended(was_capturing, REAL(cuStreamEndCapture_ptsz)(stream, graph));
}

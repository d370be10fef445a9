/* Nodes of graphs, one by one. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "module.h"

static CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                    struct operation *operation) {
    if (node == NULL || !handle_is(graph, HANDLE_GRAPH) || (after == NULL && count > 0))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = graph_add(graph, operation, after, count, node);
    if (result != CUDA_SUCCESS) operation_free(operation);
    return result;
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS *parameters) {
    struct function *function;
    struct operation operation;
    if (parameters == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUresult result =
        find_function(parameters->function != NULL ? parameters->function : parameters->kernel, &function);
    if (result == CUDA_SUCCESS)
        result = launch_make(function, parameters->grid, parameters->block, parameters->shared_bytes,
                             parameters->parameters, parameters->extra, &operation);
    return result == CUDA_SUCCESS ? add(node, graph, after, count, &operation) : result;
}

/* The first version's parameters end before the kernel of a library. */
EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                     const CUDA_KERNEL_NODE_PARAMS *parameters) {
    CUDA_KERNEL_NODE_PARAMS whole = {0};
    if (parameters == NULL) return CUDA_ERROR_INVALID_VALUE;
    memcpy(&whole, parameters, offsetof(CUDA_KERNEL_NODE_PARAMS, kernel));
    return cuGraphAddKernelNode_v2(node, graph, after, count, &whole);
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                     const CUDA_MEMCPY3D *copy, CUcontext context) {
    (void)context;
    struct operation operation;
    if (copy == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = copy_make(copy, &operation);
    return result == CUDA_SUCCESS ? add(node, graph, after, count, &operation) : result;
}

EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                     const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context) {
    (void)context;
    if (fill == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct operation operation = {.kind = OPERATION_FILL, .fill = *fill};
    CUresult result = fill_check(fill);
    return result == CUDA_SUCCESS ? add(node, graph, after, count, &operation) : result;
}

EXPORT CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                                   const CUDA_HOST_NODE_PARAMS *host) {
    if (host == NULL || host->call == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct operation operation = {.kind = OPERATION_HOST, .host = {host->call, host->data}};
    return add(node, graph, after, count, &operation);
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count) {
    struct operation operation = {.kind = OPERATION_EMPTY};
    return add(node, graph, after, count, &operation);
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, unsigned int *type) {
    static const unsigned int types[] = {[OPERATION_KERNEL] = CU_GRAPH_NODE_KERNEL,
                                         [OPERATION_COPY] = CU_GRAPH_NODE_MEMCPY,
                                         [OPERATION_FILL] = CU_GRAPH_NODE_MEMSET,
                                         [OPERATION_HOST] = CU_GRAPH_NODE_HOST,
                                         [OPERATION_EMPTY] = CU_GRAPH_NODE_EMPTY};
    if (type == NULL || !handle_is(node, HANDLE_GRAPH_NODE)) return CUDA_ERROR_INVALID_VALUE;
    *type = types[node->operation.kind];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    if (count == NULL || !handle_is(graph, HANDLE_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes != NULL && i < *count; i++) nodes[i] = i < graph->node_count ? graph->nodes[i] : NULL;
    if (nodes == NULL || *count > graph->node_count) *count = graph->node_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    if (count == NULL || !handle_is(graph, HANDLE_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    size_t found = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i]->after_count > 0) continue;
        if (nodes != NULL && found < *count) nodes[found] = graph->nodes[i];
        found++;
    }
    if (nodes == NULL || *count > found) *count = found;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
    if (count == NULL || !handle_is(node, HANDLE_GRAPH_NODE)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes != NULL && i < *count; i++) nodes[i] = i < node->after_count ? node->after[i] : NULL;
    if (nodes == NULL || *count > node->after_count) *count = node->after_count;
    return CUDA_SUCCESS;
}

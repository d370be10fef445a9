#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"
#include "user_object.h"

struct graph *graph_new(void) {
    struct graph *graph = handle_new(HANDLE_GRAPH, sizeof *graph);
    if (graph == NULL) return NULL;
    graph->nodes = NULL;
    graph->node_count = graph->node_room = 0;
    graph->references = NULL;
    return graph;
}

void graph_free(struct graph *graph) {
    for (size_t i = 0; i < graph->node_count; i++) {
        operation_free(&graph->nodes[i]->operation);
        free(graph->nodes[i]->after);
        handle_drop(graph->nodes[i]);
    }
    free(graph->nodes);
    user_objects_release(graph);
    handle_drop(graph);
}

/* Takes over the operation's arguments if it succeeds. */
CUresult graph_add(struct graph *graph, const struct operation *operation, CUgraphNode const *after, size_t after_count,
                   struct graph_node **made) {
    for (size_t i = 0; i < after_count; i++)
        if (!handle_is(after[i], HANDLE_GRAPH_NODE) || after[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    if (graph->node_count == graph->node_room) {
        size_t room = graph->node_room == 0 ? 16 : 2 * graph->node_room;
        struct graph_node **moved = realloc(graph->nodes, room * sizeof *moved);
        if (moved == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        graph->nodes = moved;
        graph->node_room = room;
    }
    struct graph_node *node = handle_new(HANDLE_GRAPH_NODE, sizeof *node);
    struct graph_node **copy = malloc((after_count + 1) * sizeof *copy);
    if (node == NULL || copy == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (after_count > 0) memcpy(copy, after, after_count * sizeof *copy);
    node->graph = graph;
    node->operation = *operation;
    node->after = copy;
    node->after_count = after_count;
    graph->nodes[graph->node_count++] = node;
    if (made != NULL) *made = node;
    return CUDA_SUCCESS;
}

static size_t place_of(const struct graph *graph, const struct graph_node *node) {
    size_t place = 0;
    while (place < graph->node_count && graph->nodes[place] != node) place++;
    return place;
}

static CUresult copy_graph(const struct graph *from, struct graph **made) {
    struct graph *graph = graph_new();
    CUresult result = graph == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    for (size_t i = 0; i < from->node_count && result == CUDA_SUCCESS; i++) {
        const struct graph_node *node = from->nodes[i];
        struct operation operation;
        struct graph_node **after = malloc((node->after_count + 1) * sizeof *after);
        if (after == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t each = 0; each < node->after_count; each++)
            after[each] = graph->nodes[place_of(from, node->after[each])];
        result = operation_copy(&node->operation, &operation);
        if (result == CUDA_SUCCESS) result = graph_add(graph, &operation, after, node->after_count, NULL);
        free(after);
    }
    if (result == CUDA_SUCCESS) result = user_objects_copy(graph, from);
    *made = graph;
    return result;
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags) {
    if (graph == NULL || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *graph = graph_new();
    return *graph == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph) {
    if (!handle_is(graph, HANDLE_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    graph_free(graph);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphClone(CUgraph *clone, CUgraph graph) {
    if (clone == NULL || !handle_is(graph, HANDLE_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    return copy_graph(graph, clone);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    (void)flags;
    if (exec == NULL || !handle_is(graph, HANDLE_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    struct graph_exec *made = handle_new(HANDLE_GRAPH_EXEC, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *exec = made;
    return copy_graph(graph, &made->graph);
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    if (parameters == NULL) return CUDA_ERROR_INVALID_VALUE;
    parameters->error_node = NULL;
    parameters->result = 0;
    return cuGraphInstantiateWithFlags(exec, graph, parameters->flags);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t bytes) {
    if (wrong != NULL) *wrong = NULL;
    if (log != NULL && bytes > 0) *log = '\0';
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *wrong, char *log, size_t bytes) {
    return cuGraphInstantiate_v2(exec, graph, wrong, log, bytes);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
    if (!handle_is(exec, HANDLE_GRAPH_EXEC)) return CUDA_ERROR_INVALID_VALUE;
    graph_free(exec->graph);
    handle_drop(exec);
    return CUDA_SUCCESS;
}

static bool same_shape(const struct graph *a, const struct graph *b) {
    bool same = a->node_count == b->node_count;
    for (size_t i = 0; same && i < a->node_count; i++) {
        const struct graph_node *x = a->nodes[i], *y = b->nodes[i];
        same = x->operation.kind == y->operation.kind && x->after_count == y->after_count;
        for (size_t each = 0; same && each < x->after_count; each++)
            same = place_of(a, x->after[each]) == place_of(b, y->after[each]);
    }
    return same;
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    if (!handle_is(exec, HANDLE_GRAPH_EXEC) || !handle_is(graph, HANDLE_GRAPH) || info == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){0, NULL, NULL};
    if (!same_shape(exec->graph, graph)) {
        info->result = 2; /* the topology has changed */
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    struct graph *fresh;
    CUresult result = copy_graph(graph, &fresh);
    if (result != CUDA_SUCCESS) return result;
    graph_free(exec->graph);
    exec->graph = fresh;
    return CUDA_SUCCESS;
}

/* Nodes are computed in order; on the time line each begins when all that come before it have ended. */
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    if (result != CUDA_SUCCESS) return result;
    if (!handle_is(exec, HANDLE_GRAPH_EXEC)) return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    double begin = stream_begin(stream);
    for (size_t i = 0; i < exec->graph->node_count && result == CUDA_SUCCESS; i++) {
        struct graph_node *node = exec->graph->nodes[i];
        node->tail = begin;
        for (size_t each = 0; each < node->after_count; each++) node->tail = fmax(node->tail, node->after[each]->tail);
        if (node->operation.kind != OPERATION_HOST) stream_settle(stream);
        result = operation_run(stream->context, &node->operation, &node->tail, stream);
        stream_end(stream, node->tail);
    }
    return result;
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
    struct stream *stream;
    CUresult result = find_stream(handle, &stream);
    return result == CUDA_SUCCESS && !handle_is(exec, HANDLE_GRAPH_EXEC) ? CUDA_ERROR_INVALID_VALUE : result;
}

/* Graphs of operations, made by capturing streams or node by node, and launched as a whole. */
#ifndef GPUYARD_CUDA_GRAPH_H
#define GPUYARD_CUDA_GRAPH_H

#include "operation.h"

struct graph_node {
    struct handle handle;
    struct graph *graph;
    struct operation operation;
    struct graph_node **after; /* nodes that come before this one */
    size_t after_count;
    double tail; /* where it ends, while the graph is launched */
};

struct graph {
    struct handle handle;
    struct graph_node **nodes; /* each behind all that come before it */
    size_t node_count, node_room;
    struct user_reference *references; /* to objects of the program */
};

struct graph_exec {
    struct handle handle;
    struct graph *graph; /* its own copy */
};

struct graph *graph_new(void);
void graph_free(struct graph *graph);
CUresult graph_add(struct graph *graph, const struct operation *operation, CUgraphNode const *after, size_t after_count,
                   struct graph_node **made);

/* A stream that is captured: its next node comes after these. */
struct event;
CUresult capture_operation(struct stream *stream, struct operation *operation);
CUresult capture_event(struct stream *stream, struct event *event);
CUresult capture_wait(struct stream *stream, struct event *event);
void capture_forget(struct event *event);
void capture_abandon(struct stream *stream);

#endif

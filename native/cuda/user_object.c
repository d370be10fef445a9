#include "user_object.h"

#include <pthread.h>
#include <stdlib.h>

struct user_object {
    struct handle handle;
    void *data;
    CUhostFn destroy;
    uint64_t references;
};

/* So many references of one graph to one object. */
struct user_reference {
    struct user_reference *next;
    struct user_object *object;
    uint64_t count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void retain(struct user_object *object, uint64_t count) {
    pthread_mutex_lock(&lock);
    object->references += count;
    pthread_mutex_unlock(&lock);
}

/* The destructor is called without the lock: it may well release others. */
static CUresult release(struct user_object *object, uint64_t count) {
    pthread_mutex_lock(&lock);
    bool has = object->references >= count;
    if (has) object->references -= count;
    bool last = has && object->references == 0;
    pthread_mutex_unlock(&lock);
    if (!has) return CUDA_ERROR_INVALID_VALUE;
    if (last) {
        object->destroy(object->data);
        handle_drop(object);
    }
    return CUDA_SUCCESS;
}

static bool is_object(const struct user_object *object, unsigned int count) {
    return handle_is(object, HANDLE_USER_OBJECT) && count > 0 && count <= INT32_MAX;
}

static struct user_reference **find(struct graph *graph, const struct user_object *object) {
    struct user_reference **link = &graph->references;
    while (*link != NULL && (*link)->object != object) link = &(*link)->next;
    return link;
}

static CUresult add(struct graph *graph, struct user_object *object, uint64_t count) {
    struct user_reference **link = find(graph, object);
    if (*link == NULL) *link = calloc(1, sizeof **link);
    if (*link == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    (*link)->object = object;
    (*link)->count += count;
    return CUDA_SUCCESS;
}

CUresult user_objects_copy(struct graph *to, const struct graph *from) {
    for (const struct user_reference *each = from->references; each != NULL; each = each->next) {
        CUresult result = add(to, each->object, each->count);
        if (result != CUDA_SUCCESS) return result;
        retain(each->object, each->count);
    }
    return CUDA_SUCCESS;
}

void user_objects_release(struct graph *graph) {
    while (graph->references != NULL) {
        struct user_reference *reference = graph->references;
        graph->references = reference->next;
        release(reference->object, reference->count);
        free(reference);
    }
}

EXPORT CUresult cuUserObjectCreate(CUuserObject *object, void *data, CUhostFn destroy, unsigned int references,
                                   unsigned int flags) {
    if (object == NULL || destroy == NULL || references == 0 || references > INT32_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    *object = handle_new(HANDLE_USER_OBJECT, sizeof **object);
    if (*object == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    (*object)->data = data;
    (*object)->destroy = destroy;
    (*object)->references = references;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    if (!is_object(object, count)) return CUDA_ERROR_INVALID_VALUE;
    retain(object, count);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    return is_object(object, count) ? release(object, count) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
    if (!handle_is(graph, HANDLE_GRAPH) || !is_object(object, count) || flags > CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = add(graph, object, count);
    if (result == CUDA_SUCCESS && flags != CU_GRAPH_USER_OBJECT_MOVE) retain(object, count);
    return result;
}

EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    if (!handle_is(graph, HANDLE_GRAPH) || !is_object(object, count)) return CUDA_ERROR_INVALID_VALUE;
    struct user_reference **link = find(graph, object), *reference = *link;
    if (reference == NULL || reference->count < count) return CUDA_ERROR_INVALID_VALUE;
    reference->count -= count;
    if (reference->count == 0) {
        *link = reference->next;
        free(reference);
    }
    return release(object, count);
}

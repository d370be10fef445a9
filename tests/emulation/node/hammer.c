/* A process at the first GPU of a node that does everything a client can, as fast as it can: hammer NODE SEED OPERATIONS.
 *
 * It says `ready` once it is connected. With 0 operations it goes on until it is killed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "node.h"

#define MIB (UINT64_C(1) << 20)

static void check(int error) {
    if (error >= 0 || error == GPUYARD_ERROR_OUT_OF_MEMORY) return;
    fprintf(stderr, "%s\n", gpuyard_error_text(error));
    exit(1);
}

static struct gpuyard_client *come(struct gpuyard_node *node) {
    struct gpuyard_client *client;
    struct gpuyard_terms terms = GPUYARD_USUAL_TERMS;
    terms.priority = rand() % 3;
    check(gpuyard_connect(node, 0, &terms, &client));
    check(gpuyard_reserve(client, MIB));
    return client;
}

/* Does one thing of those that there are, most often what changes everybody's rate. */
static void act(struct gpuyard_node *node, struct gpuyard_client **client, double *queued) {
    static struct gpuyard_gpu_view view;
    double now = gpuyard_now(node), position = 0;
    uint64_t bytes;
    switch (rand() % 16) {
        case 0:
            check(gpuyard_disconnect(*client));
            *client = come(node);
            *queued = 0;
            break;
        case 1: check(gpuyard_reserve(*client, MIB)); break;
        case 2: check(gpuyard_release(*client, MIB)); break;
        case 3: check(gpuyard_free_memory(*client, &bytes)); break;
        case 4: check(gpuyard_look(node, 0, now, &view)); break;
        case 5: check(gpuyard_publish(*client, GPUYARD_STEPS, 1)); break;
        case 6:
            check(gpuyard_device_time(*client, now, &position));
            check(gpuyard_reached_at(*client, position + 1e-5, now, &position));
            check(gpuyard_wait_until(*client, position - 1e-5));
            break;
        case 7:
            check(gpuyard_device_time(*client, now, &position));
            check(gpuyard_reached_at(*client, position - 1, now, &position));
            break;
        default:
            check(gpuyard_device_time(*client, now, &position));
            check(gpuyard_submit(*client, position + 1e-6, now, *queued += 1e-6));
    }
}

int main(int count, char **arguments) {
    struct gpuyard_node *node;
    double queued = 0;
    if (count != 4) return 2;
    srand((unsigned int)atoi(arguments[2]));
    check(gpuyard_attach(arguments[1], &node));
    struct gpuyard_client *client = come(node);
    printf("ready\n");
    fflush(stdout);
    for (int left = atoi(arguments[3]), forever = left == 0; forever || left > 0; left--) act(node, &client, &queued);
    gpuyard_destroy(node);
    return 0;
}

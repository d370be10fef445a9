/* Prints where everything is in a node's file, as native/node/layout.h has it, for tests that write nonsense there; and
 * how large the structures are that Python declares. */
#include <stdio.h>

#include "layout.h"

#define PLACE(record, field) printf("  \"%s.%s\": %zu,\n", #record, #field, offsetof(struct record##_record, field))
#define FIELD(type, field) printf("  \"%s.%s\": %zu,\n", #type, #field, offsetof(struct gpuyard_##type, field))
#define SIZE(type) printf("  \"%s\": %zu,\n", #type, sizeof(struct gpuyard_##type))

int main(void) {
    printf("{\n");
    printf("  \"first_gpu\": %zu,\n  \"gpu\": %zu,\n", sizeof(struct node_record), sizeof(struct gpu_record));
    printf("  \"client\": %zu,\n", sizeof(struct client_record));
    PLACE(node, version);
    PLACE(gpu, clients), PLACE(gpu, retired_busy), PLACE(gpu, updated);
    PLACE(client, tail), PLACE(client, busy), PLACE(client, share), PLACE(client, demand), PLACE(client, reserved);
    PLACE(client, chunk_end), PLACE(client, connected_at), PLACE(client, breakpoints);
    PLACE(client, breakpoint_count), PLACE(client, sample_count);
    FIELD(sharing, interference), FIELD(claim, ticket), FIELD(gpu, memory_mhz), FIELD(description, gpu_count);
    FIELD(terms, memory_limit), FIELD(line, busy), FIELD(client_view, utilisation), FIELD(gpu_view, clients);
    SIZE(sharing), SIZE(claim), SIZE(description), SIZE(terms), SIZE(line), SIZE(client_view), SIZE(gpu_view);
    printf("  \"about_gpu\": %zu\n}\n", sizeof(struct gpuyard_gpu));
    return 0;
}

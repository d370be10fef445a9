/* Is killed in the middle of what it does at the GPU "gpu" of the group "test": killed PHASE LEVEL. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "levels.h"

static struct gpuyard_gate *gate;
static struct gpuyard_gate_client *client;

static void check(int error) {
    if (error == GPUYARD_OK) return;
    fprintf(stderr, "%s\n", gpuyard_gate_error_text(error));
    exit(1);
}

static void die(void) { kill(getpid(), SIGKILL); }

static void lock_gpu(void) { check(segment_lock(gate->segment, gpu_byte(client->gpu_number))); }

/* Kills us once the main thread waits at the gate. */
static void *die_while_waiting(void *unused) {
    while (client->record->waiting == 0) usleep(100);
    die();
    return unused;
}

static void wait_at_the_gate(void) {
    pthread_t other;
    if (gpuyard_gate_arrive(client) != 1) exit(2);
    pthread_create(&other, NULL, die_while_waiting, NULL);
    check(gpuyard_gate_wait(client));
}

static void decide_ungated(void) {
    struct gpuyard_gate_gpu_view view;
    struct gpuyard_gate_decision decisions[GPUYARD_MOST_CLIENTS];
    check(gpuyard_gate_control(gate));
    check(gpuyard_gate_look(gate, client->gpu_number, &view));
    for (unsigned int i = 0; i < view.client_count; i++) {
        bool mine = view.clients[i].pid == (uint64_t)getpid();
        decisions[i] = (struct gpuyard_gate_decision){view.clients[i].slot, view.clients[i].ticket, {mine ? 63 : 0, 1, 0}};
    }
    check(gpuyard_gate_decide(gate, client->gpu_number, decisions, (unsigned int)view.client_count));
}

int main(int count, char **arguments) {
    const char *phase = count > 2 ? arguments[1] : "";
    struct gpuyard_gate_request request = {{atoi(arguments[2]), 0, 0}, 1.0, 0.0, 1 << 20};
    check(gpuyard_gate_open("test", &gate));
    check(gpuyard_gate_connect(gate, "gpu", &request, &client));
    struct client_record *record = client->record;
    check(gpuyard_gate_reserve(client, 1 << 19));
    if (strcmp(phase, "connected") == 0) die();
    if (strcmp(phase, "connecting") == 0) { /* its place is taken, and its bit not yet set */
        lock_gpu();
        client->gpu->connected &= ~(UINT64_C(1) << client->slot);
        die();
    }
    if (strcmp(phase, "waiting") == 0) wait_at_the_gate();
    if (strcmp(phase, "beginning") == 0) { /* active, and no stop word rewritten */
        lock_gpu();
        record->active = 1;
        die();
    }
    if (gpuyard_gate_arrive(client) < 0) exit(2);
    if (strcmp(phase, "active") == 0) die();
    gpuyard_gate_launched(client);
    if (strcmp(phase, "launching") == 0) die();
    if (strcmp(phase, "locked") == 0) {
        lock_gpu();
        die();
    }
    if (strcmp(phase, "draining") == 0) { /* the launches are counted off, and it still counts as busy */
        lock_gpu();
        record->queued = 0;
        die();
    }
    if (strcmp(phase, "ending") == 0) { /* no longer active, and everybody still stopped */
        lock_gpu();
        record->active = 0;
        die();
    }
    if (strcmp(phase, "leaving") == 0) {
        lock_gpu();
        client->gpu->connected &= ~(UINT64_C(1) << client->slot);
        die();
    }
    if (strcmp(phase, "controlling") == 0) {
        decide_ungated();
        die();
    }
    if (strcmp(phase, "deciding") == 0) {
        decide_ungated();
        lock_gpu();
        record->decision.level = 62;
        die();
    }
    if (strcmp(phase, "making") == 0) { /* of a group, or a GPU */
        check(segment_lock(gate->segment, MAKING_BYTE));
        die();
    }
    fprintf(stderr, "no such phase\n");
    return 1;
}

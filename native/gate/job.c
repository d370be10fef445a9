/* Jobs: when one begins, what it has queued, when it waits and when it is done.
 *
 * `queued` is counted after a launch was made, and taken off by what it was before a synchronisation began. So while it is not
 * 0 the queue may not be empty, whatever other threads do; and a launch that slipped in while another thread ended the
 * job finds itself the first of the queue, and begins one.
 */
#define _GNU_SOURCE
#include "fast.h"
#include "futex.h"
#include "levels.h"

void gpuyard_gate_words(struct gpuyard_gate_client *client, struct gpuyard_gate_words *words) {
    struct client_record *record = client->record;
    *words = (struct gpuyard_gate_words){
        .stop = (const volatile uint32_t *)&record->stop,
        .sync_every = (const volatile uint64_t *)&record->sync_every,
        .window = (const volatile uint64_t *)&record->window,
        .queued = (volatile uint64_t *)&record->queued,
        .launches = (volatile uint64_t *)&record->launches,
    };
}

bool gpuyard_gate_is_stopped(const struct gpuyard_gate_client *client) { return fast_is_stopped(client->record); }

bool gpuyard_gate_is_open(const struct gpuyard_gate_client *client) { return fast_is_open(client->record); }

uint64_t gpuyard_gate_queued(const struct gpuyard_gate_client *client) { return client->record->queued; }

/* Locks the GPU, ends what was held long enough and, if nobody has for a while, looks for the dead. */
static int enter(struct gpuyard_gate_client *client, uint64_t now) {
    int error = client_state(client);
    if (error == GPUYARD_OK) error = segment_lock(client->gate->segment, gpu_byte(client->gpu_number));
    if (error == GPUYARD_OK && now - client->gpu->looked_ns > GPUYARD_GATE_LOOK_NS)
        levels_look(client->gate, client->gpu_number);
    else if (error == GPUYARD_OK && levels_lapse(client->gpu, now))
        levels_apply(client->gpu);
    return error;
}

static void leave(struct gpuyard_gate_client *client) {
    segment_unlock(client->gate->segment, gpu_byte(client->gpu_number));
}

static bool is_busy(const struct gpuyard_gate_client *client) { return client->gpu->busy >> client->slot & 1; }

/* Begins a job unless one is under way, with a launch that follows or without; 1 if it has to wait. What begins without a
 * launch is marked, and another job than one that is only held; the gate stays as it is between the two. */
static int arrive(struct gpuyard_gate_client *client, bool launches) {
    struct client_record *record = client->record;
    uint64_t now = monotonic_ns();
    int error = enter(client, now);
    if (error != GPUYARD_OK) return error;
    if (!launches && record->active && record->held_since_ns != 0) levels_end_job(record, record->held_since_ns);
    if (!record->active) {
        record->job_since_ns = now;
        record->before_job = record->before_resumption = record->launches;
        record->resumptions = 0;
        record->jobs_begun++;
        record->active = 1;
        levels_apply(client->gpu);
    } else if (record->held_since_ns != 0) {
        record->held_since_ns = 0; /* the same job goes on */
        record->before_resumption = record->launches;
        record->resumptions++;
        levels_apply(client->gpu);
    }
    bool stopped = fast_is_stopped(record);
    if (launches && !stopped && !is_busy(client)) levels_busy(client->gpu, client->slot, true);
    leave(client);
    return stopped;
}

int gpuyard_gate_arrive(struct gpuyard_gate_client *client) { return arrive(client, true); }

/* With nothing in the queue the GPU does nothing for the client; if it has seen that, and not said that its job goes on, the
 * job is done: at once if it says so, after its hold if it only synchronised. */
static int settle(struct gpuyard_gate_client *client, bool seen, uint64_t hold_ns) {
    struct client_record *record = client->record;
    uint64_t now = monotonic_ns();
    bool ends = seen && record->active && client->marks == 0 && (hold_ns == 0 || record->held_since_ns == 0);
    if (record->queued != 0 || (!ends && !is_busy(client))) return GPUYARD_OK;
    int error = enter(client, now);
    if (error != GPUYARD_OK) return error;
    if (record->queued == 0 && is_busy(client)) levels_busy(client->gpu, client->slot, false);
    if (record->queued == 0 && record->active && ends) {
        now = monotonic_ns(); /* after its GPU time was counted, of which a job has no more than it lasted */
        if (hold_ns == 0) {
            levels_end_job(record, now);
        } else {
            record->held_for_ns = hold_ns;
            record->held_since_ns = now;
        }
        levels_apply(client->gpu);
    }
    leave(client);
    return GPUYARD_OK;
}

int gpuyard_gate_begin_job(struct gpuyard_gate_client *client) {
    client->marks++;
    int error = arrive(client, false);
    return error < 0 ? error : GPUYARD_OK;
}

int gpuyard_gate_end_job(struct gpuyard_gate_client *client) {
    uint64_t marks = client->marks;
    while (marks != 0 && !atomic_compare_exchange_weak(&client->marks, &marks, marks - 1)) continue;
    return marks == 0 ? GPUYARD_ERROR_NO_JOB : settle(client, true, client->record->hold_ns);
}

int gpuyard_gate_wait(struct gpuyard_gate_client *client) {
    struct client_record *record = client->record;
    uint64_t since = monotonic_ns(), now = since;
    int error = client_state(client);
    if (error != GPUYARD_OK) return error;
    record->preemptions += record->launches != record->before_job;
    record->waiting++;
    for (uint32_t stop; error == GPUYARD_OK && (stop = record->stop) != STOP_OPEN;) {
        futex_wait(&record->stop, stop, levels_patience(client->gpu, now));
        now = monotonic_ns();
        if (!fast_is_stopped(record)) break;
        error = enter(client, now);
        if (error == GPUYARD_OK) leave(client);
    }
    record->waiting--;
    record->waited_ns += now - since;
    return error;
}

bool gpuyard_gate_launched(struct gpuyard_gate_client *client) {
    uint64_t queued = fast_count(client->record);
    if (fast_is_plain(client->record, queued)) return false;
    return gpuyard_gate_counted(client, queued);
}

bool gpuyard_gate_counted(struct gpuyard_gate_client *client, uint64_t queued) {
    if (queued == 1 && !(client->record->active && is_busy(client))) gpuyard_gate_arrive(client);
    uint64_t most = client->record->sync_every;
    return most != 0 && queued >= most;
}

int gpuyard_gate_drained(struct gpuyard_gate_client *client, uint64_t launches, enum gpuyard_gate_drain why,
                         uint64_t wait_ns) {
    struct client_record *record = client->record;
    int error = client_state(client);
    if (error != GPUYARD_OK) return error;
    if (record->queued > record->longest_queue) record->longest_queue = record->queued;
    record->done_launches += launches;
    record->queued -= launches;
    uint64_t own = record->request.hold_ns, decided = record->hold_ns;
    error = settle(client, why == GPUYARD_GATE_PROGRAM, own > decided ? own : decided);
    if (why == GPUYARD_GATE_PROGRAM) return error;
    record->syncs += why == GPUYARD_GATE_CAP;
    record->drains++;
    record->drained_launches += launches;
    record->drain_ns += wait_ns;
    return error;
}

/* What is in a group's file: the one statement of it.
 *
 *     header | gpu 0, with its clients 0…63 | gpu 1, with its clients 0…63 | …
 *
 * Who is alive is said by locks on single bytes of the file, as in a node's (native/node/layout.h):
 *
 * - the header's `version`: read-locked by every process in the group; without one, the file is stale;
 * - the header's `controller`: write-locked by the controller;
 * - a client's first byte: write-locked by its process; a client without it is gone, whatever it says;
 * - the header's first byte: held while the group is made or removed, or a GPU is added; a GPU's: held while stop words are
 *   rewritten.
 *
 * Each number is one store of the processor, so a process that is killed leaves no half of one. A client's lines are apart:
 * what others write, and it reads at each launch; what it writes at each launch; what is written now and then.
 */
#ifndef GPUYARD_GATE_LAYOUT_H
#define GPUYARD_GATE_LAYOUT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>

#include "gate.h"
#include "members.h"

#define GATE_MAGIC UINT64_C(0x6574616764727967) /* "gyrdgate", little endian */
#define GATE_VERSION 4
#define CACHE_LINE 64

/* What a client finds at the gate. HELD differs from SHUT so that whoever waits learns that there is a time to look again. */
enum stop_word {
    STOP_OPEN = 0,
    STOP_SHUT = 1, /* a job of a higher level is under way */
    STOP_HELD = 2  /* all of those are done, and only held */
};

struct client_record {
    /* written under the GPU's lock */
    alignas(CACHE_LINE) _Atomic uint32_t stop; /* a futex: one of stop_word */
    uint32_t unused;
    _Atomic int64_t level; /* terms in force */
    _Atomic uint64_t sync_every, window, hold_ns;
    _Atomic uint64_t active; /* has a job */
    _Atomic uint64_t held_since_ns; /* since when its job is done unless it launches within its hold; 0: it is not */
    _Atomic uint64_t held_for_ns;   /* how long that hold is */

    /* written at each launch by its process */
    alignas(CACHE_LINE) _Atomic uint64_t launches;
    _Atomic uint64_t queued;

    /* written by its process now and then */
    alignas(CACHE_LINE) _Atomic uint64_t waiting; /* threads that wait at the gate */
    _Atomic uint64_t longest_queue, syncs, preemptions, waited_ns, drains, drained_launches, drain_ns;
    _Atomic uint64_t busy_ns, done_launches;
    _Atomic uint64_t jobs_begun, jobs_done, job_since_ns, last_job_ns;
    _Atomic uint64_t before_job; /* launches before the present job, or the last */
    _Atomic uint64_t resumptions, before_resumption; /* how often that job went on within its hold; launches before the last time */
    _Atomic uint64_t memory_used;

    /* written once by its process, and by the controller */
    alignas(CACHE_LINE) uint64_t ticket;
    uint64_t pid;
    struct gpuyard_gate_request request;
    uint64_t decided; /* whether the controller's terms are for this client */
    struct gpuyard_gate_terms decision;
};

struct gpu_record {
    alignas(CACHE_LINE) char key[GPUYARD_GATE_KEY_BYTES];
    uint64_t connected; /* one bit for each client */
    uint64_t looked_ns; /* when the dead were last looked for */
    _Atomic uint64_t busy; /* one bit for each client that has something on the GPU, as far as is known */
    uint64_t charged_ns; /* up to when GPU time was given to them */
    struct client_record clients[GPUYARD_MOST_CLIENTS];
};

struct group_record {
    alignas(CACHE_LINE) _Atomic uint64_t magic; /* written last, so a half-made file has none */
    uint64_t version;
    uint64_t length;
    uint64_t controller;          /* only its lock counts */
    _Atomic uint64_t last_ticket; /* given to a client */
    _Atomic uint64_t gpu_count;   /* GPUs that were ever used */
    _Atomic uint32_t changes;     /* a futex: clients that came or went */
    uint32_t unused;
    struct gpu_record gpus[GPUYARD_GATE_MOST_GPUS];
};

#define CONTROLLER_BYTE offsetof(struct group_record, controller)

static inline uint64_t gpu_byte(unsigned int gpu) {
    return offsetof(struct group_record, gpus) + gpu * sizeof(struct gpu_record);
}

static inline uint64_t client_byte(unsigned int gpu, unsigned int slot) {
    return gpu_byte(gpu) + offsetof(struct gpu_record, clients) + slot * sizeof(struct client_record);
}

_Static_assert(offsetof(struct group_record, version) == MEMBER_BYTE, "where members lock");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "one store each");
_Static_assert(GPUYARD_MOST_CLIENTS == 64, "`connected` has one bit for each client");

#endif

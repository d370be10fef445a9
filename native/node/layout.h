/* What is in a node's file: the one statement of it.
 *
 *     header | gpu 0, with its clients 0…63 | gpu 1, with its clients 0…63 | …
 *
 * Every number takes 8 bytes and text a multiple of 8, so nothing is ever padded and each store of a number is one
 * store of the processor: a process that is killed cannot leave half a number behind.
 *
 * Who is alive is said by locks, not by numbers: the kernel drops them with the process, whichever way it ends. They
 * are open-file-description locks on single bytes of the file:
 *
 * - the first byte of the header's `version`: read-locked by every process attached (members.h); without one, the file is stale;
 * - a client's first byte: write-locked by its process; a client without it is gone, whatever it says;
 * - the header's first byte: held while a node is made or removed; a GPU's: held while its clients are advanced.
 *
 * What is written without the GPU's lock is atomic, and so are the numbers that say that something else counts.
 */
#ifndef GPUYARD_LAYOUT_H
#define GPUYARD_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>

#include "members.h"

#define LAYOUT_MAGIC UINT64_C(0x0064726179757067) /* "gpuyard" and a zero byte, little endian */
#define LAYOUT_VERSION 3
#define MOST_BREAKPOINTS 256 /* kept for each client */
#define MOST_SAMPLES 8       /* kept for each client, enough for GPUYARD_WINDOW_S */

struct breakpoint {
    double clock;    /* emulated seconds at which the client's rate changed */
    double position; /* its device time then */
    double rate;     /* device seconds per emulated second from then on */
};

struct sample {
    double idle_from; /* device time from which its queue had been empty; the position, if it was not */
    double position;  /* device time at which its process recorded the sample */
    double done;      /* seconds of work done by then */
};

struct client_record {
    uint64_t pid;          /* the process, as it sees itself */
    double connected_at;   /* emulated seconds */
    int64_t priority;      /* higher runs first under the priority policy */
    double share;          /* part of the GPU's compute under the partition policy */
    double demand;         /* part of the GPU it fills when it runs, for the spatial policy */
    uint64_t memory_limit; /* most bytes it may reserve */
    uint64_t reserved;     /* bytes it holds; its context comes on top */
    _Atomic uint64_t figures[3]; /* what it publishes, by gpuyard_figure */
    _Atomic double tail;   /* device time at which its queue ends */
    _Atomic double busy;   /* seconds of work it has queued in total; all but tail - device time of it is done */
    uint64_t ticket;       /* place in the line under the fifo policy; 0 has none */
    double chunk_end;      /* device time at which its ticket is used up */
    _Atomic uint64_t breakpoint_count; /* how many were ever written; number n is at n % MOST_BREAKPOINTS */
    _Atomic uint64_t sample_count;     /* how many were ever recorded; number n is at n % MOST_SAMPLES */
    struct breakpoint breakpoints[MOST_BREAKPOINTS];
    struct sample samples[MOST_SAMPLES];
};

struct gpu_record {
    struct gpuyard_gpu about;
    char uuid[GPUYARD_UUID_BYTES];
    _Atomic uint64_t generation; /* grows whenever who is connected, or how fast anybody runs, changes */
    _Atomic uint64_t connected;  /* one bit for each client that is connected */
    double updated;              /* emulated seconds up to which its clients are advanced */
    double reaped;               /* emulated seconds at which dead clients were last looked for */
    uint64_t last_ticket;        /* last ticket given out under the fifo policy */
    double retired_busy;         /* seconds of work done at clients that are free again */
    struct client_record clients[GPUYARD_MOST_CLIENTS];
};

struct node_record {
    _Atomic uint64_t magic; /* written last, so a half-made file has none */
    uint64_t version;       /* of this layout */
    uint64_t length;        /* bytes of the whole file */
    struct gpuyard_description about;
    struct gpu_record gpus[];
};

static inline uint64_t layout_length(uint64_t gpus) {
    return sizeof(struct node_record) + gpus * sizeof(struct gpu_record);
}

_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic double) == 8, "one store each");
_Static_assert(offsetof(struct node_record, version) == MEMBER_BYTE, "where members lock");
_Static_assert(GPUYARD_MOST_CLIENTS == 64, "`connected` has one bit for each client");
_Static_assert(GPUYARD_NAME_BYTES > GPUYARD_MOST_NAME_BYTES, "a name ends with a zero byte");
_Static_assert(sizeof(struct client_record) % 8 == 0 && sizeof(struct gpu_record) % 8 == 0, "whole numbers");

#endif

/* The shared ground of emulated GPUs: who uses which GPU of an emulated machine, with how much memory, and how fast.
 *
 * Processes of one user that open the same name share a *node*: one file in shared memory. A process is a *client* of
 * each GPU it uses. Its *device time* runs with the node's clock while it is idle; once its queue reaches beyond its
 * device time, the sharing policy sets the rate. Whoever looks brings a GPU up to date; there is no daemon, and
 * whatever a process held is free again once it is gone, however it ended.
 *
 * All times are seconds. `now` is the node's clock, positions are device time. Functions return GPUYARD_OK or a
 * negative gpuyard_error. They may be called from any thread, but the submits of one client come one at a time. In a
 * forked child, everything inherited answers GPUYARD_ERROR_FORKED and can do its parent no harm.
 */
#ifndef GPUYARD_NODE_H
#define GPUYARD_NODE_H

#include <stdbool.h>
#include <stdint.h>

/* The ground is compiled into each library that stands on it; only the library for Python shows it to others. */
#ifdef GPUYARD_EXPORTED
#define GPUYARD_API __attribute__((visibility("default")))
#else
#define GPUYARD_API __attribute__((visibility("hidden")))
#endif

enum gpuyard_error {
    GPUYARD_OK = 0,
    /* what was asked for makes no sense */
    GPUYARD_ERROR_NAME = -1,      /* a node's name has 1 to GPUYARD_MOST_NAME_BYTES bytes */
    GPUYARD_ERROR_NO_GPUS = -2,   /* a node has at least one GPU */
    GPUYARD_ERROR_SPEED = -3,     /* a speed is a positive number */
    GPUYARD_ERROR_POLICY = -4,    /* there is no sharing policy of this number */
    GPUYARD_ERROR_NO_SUCH_GPU = -5,
    GPUYARD_ERROR_SHARE = -6,     /* a share is a part of a GPU, above 0 and at most 1 */
    GPUYARD_ERROR_DEMAND = -7,    /* so is a demand */
    /* the file */
    GPUYARD_ERROR_ABSENT = -10,   /* there is no such file */
    GPUYARD_ERROR_OPEN = -11,     /* it cannot be opened; errno says why */
    GPUYARD_ERROR_OWNER = -12,    /* it belongs to another user */
    GPUYARD_ERROR_ROOM = -13,     /* shared memory has no room for it; errno says why */
    GPUYARD_ERROR_SYSTEM = -14,   /* memory of this process, or a lock, is not to be had; errno says why */
    /* the node */
    GPUYARD_ERROR_NO_NODE = -20,  /* no process is attached to a node of this name */
    GPUYARD_ERROR_SEVERAL_NODES = -21, /* several are live, and none was named */
    GPUYARD_ERROR_VERSION = -22,  /* it is in use by another version of gpuyard */
    GPUYARD_ERROR_OTHER_GPUS = -23, /* it is in use with other GPUs than asked for */
    GPUYARD_ERROR_OTHER_SPEED = -24,
    GPUYARD_ERROR_OTHER_SHARING = -25,
    /* the GPU */
    GPUYARD_ERROR_SHARE_TAKEN = -30,   /* less of it is left than the share that was asked for */
    GPUYARD_ERROR_MEMORY_TAKEN = -31,  /* its memory has no room for another process */
    GPUYARD_ERROR_CLIENTS_TAKEN = -32, /* GPUYARD_MOST_CLIENTS processes use it already */
    GPUYARD_ERROR_OUT_OF_MEMORY = -33, /* it has not so much memory left, or the client's limit forbids it */
    /* a group of programs that share GPUs: native/gate */
    GPUYARD_ERROR_LEVEL = -50,      /* levels go from 0 to 63, or -1 for none */
    GPUYARD_ERROR_GPUS_TAKEN = -51, /* the group uses as many GPUs as it can */
    GPUYARD_ERROR_CONTROLLED = -52, /* another process is the group's controller */
    GPUYARD_ERROR_NO_JOB = -53,     /* a job ends that never began */
    /* what the caller holds */
    GPUYARD_ERROR_DISCONNECTED = -40,
    GPUYARD_ERROR_CLOSED = -41,
    GPUYARD_ERROR_FORKED = -42,
    GPUYARD_ERROR_INTERRUPTED = -43, /* a signal came during a wait; wait again */
};

/* Says in a few words what an error means. */
GPUYARD_API const char *gpuyard_error_text(int error);

#define GPUYARD_MOST_CLIENTS 64     /* processes that can use one GPU at a time */
#define GPUYARD_MOST_NAME_BYTES 100 /* of a node's name */
#define GPUYARD_NAME_BYTES 104      /* room that a name needs, in whole numbers of 8 bytes */
#define GPUYARD_WINDOW_S 1.0        /* utilisation is the busy part of so many past seconds of real time */
#define GPUYARD_PATH_BYTES 4096     /* room that a path needs */

/* The ground registers its pthread_atfork handlers in a constructor of this priority. A library that holds a lock of
 * its own while it calls the ground, and takes it in a handler too, registers in one of a higher number. */
#define GPUYARD_FORKS_FIRST 101

/* How the GPUs of a node are shared: the policies of gpuyard/policies/timeshare, which says what they mean.
 * A number, once given, keeps its meaning. Options that a policy does not have are 0. */
enum gpuyard_policy {
    GPUYARD_TIME_SLICE = 0,
    GPUYARD_FIFO = 1,
    GPUYARD_PRIORITY = 2,
    GPUYARD_SPATIAL = 3,
    GPUYARD_PARTITION = 4,
    GPUYARD_EXCLUSIVE = 5,
};

struct gpuyard_sharing {
    uint64_t policy;
    double quantum_s;    /* a time slice */
    double switch_s;     /* lost between two slices */
    double capacity;     /* sum of demands that run at full speed */
    double interference; /* factor on a client's rate for each other that is active */
};

/* Returns the name of a policy as gpuyard/policies/timeshare knows it, or NULL if there is none of this number. */
GPUYARD_API const char *gpuyard_policy_name(uint64_t policy);

/* What one of several clients with work queued may claim, and how fast each runs by the policy. */
struct gpuyard_claim {
    int64_t priority; /* higher runs first */
    double share;     /* the part of the GPU that it was promised */
    double demand;    /* the part of the GPU that it fills when it runs */
    uint64_t ticket;  /* its place in the line; lower came earlier */
};

GPUYARD_API void gpuyard_rates(const struct gpuyard_sharing *sharing, const struct gpuyard_claim *claims,
                               unsigned int count, double *rates);

/* One GPU of a node, as monitors show it. Texts end with a zero byte. */
struct gpuyard_gpu {
    char key[32];  /* kind of GPU, as in gpuyard gpus */
    char name[96]; /* what torch and NVML call it */
    uint64_t memory_bytes;
    uint64_t context_bytes; /* what each process takes besides what it reserves */
    uint64_t compute_major, compute_minor; /* compute capability */
    uint64_t multiprocessors;
    double idle_watts, max_watts;
    uint64_t core_mhz, memory_mhz; /* highest clocks */
};

#define GPUYARD_UUID_BYTES 48

/* What never changes while a node lives. */
struct gpuyard_description {
    char name[GPUYARD_NAME_BYTES];
    double created; /* Unix time */
    double origin;  /* CLOCK_MONOTONIC at which the node's clock started, from this same value */
    double speed;   /* emulated seconds per second */
    struct gpuyard_sharing sharing;
    uint64_t gpu_count;
};

struct gpuyard_node;
struct gpuyard_client;

/* Attaches to the node of this name, or makes it if no process uses it. One in use must be what is asked for. */
GPUYARD_API int gpuyard_open(const char *name, const struct gpuyard_gpu *gpus, unsigned int gpu_count, double speed,
                             const struct gpuyard_sharing *sharing, struct gpuyard_node **node);

/* Attaches to a node in use, whatever it is made of. Without a name (NULL) it is the one that the environment means:
 * GPUYARD_NODE, or GPUYARD_GPUS, which names nodes that have no other name, or the only one there is. */
GPUYARD_API int gpuyard_attach(const char *name, struct gpuyard_node **node);

/* The same for a monitor, which does not keep the node alive. */
GPUYARD_API int gpuyard_watch(const char *name, struct gpuyard_node **node);

/* Whether the node's file still has its name: if not, the node has ended, and may have been made anew. */
GPUYARD_API bool gpuyard_is_current(const struct gpuyard_node *node);

/* Disconnects from all GPUs; the last process to go removes the node. From then on all calls for the node and its
 * clients answer GPUYARD_ERROR_CLOSED. `gpuyard_destroy` frees them as well: they must not be used any more. */
GPUYARD_API int gpuyard_close(struct gpuyard_node *node);
GPUYARD_API void gpuyard_destroy(struct gpuyard_node *node);

GPUYARD_API int gpuyard_describe(const struct gpuyard_node *node, struct gpuyard_description *description);
GPUYARD_API int gpuyard_describe_gpu(const struct gpuyard_node *node, unsigned int gpu, struct gpuyard_gpu *about,
                                     char uuid[GPUYARD_UUID_BYTES]);

/* The node's clock: origin + (CLOCK_MONOTONIC - origin) * speed. It goes on after the node is closed. */
GPUYARD_API double gpuyard_now(const struct gpuyard_node *node);

/* Sleeps until the node's clock shows a time, at once if it already does. */
GPUYARD_API int gpuyard_sleep_until(const struct gpuyard_node *node, double time);

/* On which terms a process uses a GPU. */
struct gpuyard_terms {
    int64_t priority;
    double share, demand;
    uint64_t memory_limit; /* most bytes it may reserve; UINT64_MAX for all there are */
};

#define GPUYARD_USUAL_TERMS ((struct gpuyard_terms){0, 1.0, 1.0, UINT64_MAX})

/* Becomes a client of a GPU, unless the policy or the memory has no room for it. Where the policy promises shares, the
 * share also is the part of the memory one gets. */
GPUYARD_API int gpuyard_connect(struct gpuyard_node *node, unsigned int gpu, const struct gpuyard_terms *terms,
                                struct gpuyard_client **client);

/* The part of a GPU that is promised to nobody: what gpuyard_connect could still give away. */
GPUYARD_API int gpuyard_share_left(struct gpuyard_node *node, unsigned int gpu, double *left);

/* Gives back memory and place. Later calls for the client answer GPUYARD_ERROR_DISCONNECTED; a second does nothing. */
GPUYARD_API int gpuyard_disconnect(struct gpuyard_client *client);

/* How far this process's time on the GPU has come. */
GPUYARD_API int gpuyard_device_time(struct gpuyard_client *client, double now, double *position);

/* Says that the queue now ends at `tail`, and that `busy` seconds of work were queued in all so far. */
GPUYARD_API int gpuyard_submit(struct gpuyard_client *client, double tail, double now, double busy);

/* When a position was reached or, if it is ahead, will be if nobody else queues anything. */
GPUYARD_API int gpuyard_reached_at(struct gpuyard_client *client, double position, double now, double *at);

/* Until when to sleep on the way to a position before looking again; minus infinity if it is reached. */
GPUYARD_API int gpuyard_look_again(struct gpuyard_client *client, double position, double now, double *at);

/* Sleeps until a position is reached. */
GPUYARD_API int gpuyard_wait_until(struct gpuyard_client *client, double position);

/* Takes memory, or GPUYARD_ERROR_OUT_OF_MEMORY; gives it back; tells how much could be taken. */
GPUYARD_API int gpuyard_reserve(struct gpuyard_client *client, uint64_t bytes);
GPUYARD_API int gpuyard_release(struct gpuyard_client *client, uint64_t bytes);
GPUYARD_API int gpuyard_free_memory(struct gpuyard_client *client, uint64_t *bytes);
GPUYARD_API int gpuyard_memory_limit(const struct gpuyard_client *client, uint64_t *bytes);

/* How many others use the same GPU. */
GPUYARD_API int gpuyard_neighbours(const struct gpuyard_client *client, unsigned int *count);

/* What a process tells monitors about itself. */
enum gpuyard_figure {
    GPUYARD_ALLOCATED = 0, /* bytes of what it reserved that are in use */
    GPUYARD_PEAK = 1,      /* most bytes ever in use */
    GPUYARD_STEPS = 2,     /* training steps done */
};

GPUYARD_API int gpuyard_publish(struct gpuyard_client *client, enum gpuyard_figure figure, uint64_t value);

/* What is known of a client without looking. While *generation_now is `generation` and `now` is before `horizon`,
 * device time is position + rate * (now - since). For those who cannot afford a call for each operation, as Python. */
struct gpuyard_line {
    uint64_t generation; /* 0: nothing is known */
    double since, position, rate;
    double horizon;
    double sample_at; /* from this time on, a submit must go through gpuyard_submit */
    uint64_t alone;   /* 1: whatever it queues changes nobody's rate */
    const volatile uint64_t *generation_now; /* reads 0 once the node is closed, and in a forked child */
    volatile double *tail, *busy;            /* where a submit that changes nobody's rate may write */
};

GPUYARD_API int gpuyard_known_line(const struct gpuyard_client *client, struct gpuyard_line *line);

/* One process at a GPU, as monitors see it. */
struct gpuyard_client_view {
    uint64_t pid;
    double connected_at;
    uint64_t memory_bytes; /* what it holds, its context included */
    uint64_t reserved_bytes, allocated_bytes, peak_bytes, steps;
    int64_t priority;
    double share;
    double busy_s;      /* seconds of GPU work done since it connected */
    double utilisation; /* part of the last second in which the GPU worked for it */
};

/* One GPU at one instant. */
struct gpuyard_gpu_view {
    double now;  /* the node's clock */
    double unix_time;
    uint64_t memory_used;
    double busy_s;      /* seconds of work ever done on it, also for those who have left */
    double utilisation; /* part of the last second in which it worked */
    double watts, celsius; /* straight lines of how busy it is */
    double joules;         /* energy drawn since the node was made */
    uint64_t client_count;
    struct gpuyard_client_view clients[GPUYARD_MOST_CLIENTS];
};

/* Looks at a GPU: brings it up to date, and disconnects the dead. `now` may be ahead of the clock, as in tests. */
GPUYARD_API int gpuyard_look(struct gpuyard_node *node, unsigned int gpu, double now, struct gpuyard_gpu_view *view);

/* Writes the names of all live nodes of this user to `names`, as far as there is room, and removes files of dead ones.
 * Returns how many there are. */
GPUYARD_API int gpuyard_live_nodes(char (*names)[GPUYARD_NAME_BYTES], unsigned int room);

/* Where segments live: GPUYARD_SHM, or /dev/shm, or the temporary folder. Where a node's segment lives. */
GPUYARD_API int gpuyard_folder(char folder[GPUYARD_PATH_BYTES]);
GPUYARD_API int gpuyard_path(const char *name, char path[GPUYARD_PATH_BYTES]);

#endif

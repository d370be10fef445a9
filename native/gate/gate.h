/* The gate: which of the programs that share a GPU may launch now, and how much at once.
 *
 * Programs of one user that name the same *group* share one file in shared memory. A process is a *client* of each GPU that it
 * launches on. It has a *job* from its first launch until nothing of it is left on the GPU and it has not launched again
 * within its *hold*: programs read results in the middle of a job. While it has one it is active at its level. A client whose *stop word* is set finds a higher level active: it drains what it has queued and waits. Nobody
 * ever waits for a lower level, so the highest level that is active always goes on.
 *
 * Whether a launch may go is one load of the client's own stop word; what it queued is one counter of its own. All else
 * happens under the GPU's lock, which rewrites the stop words from what the live clients say, so that a process killed
 * anywhere leaves nothing wrong that the next look does not mend; whoever waits looks every GPUYARD_GATE_LOOK_NS.
 *
 * Functions return GPUYARD_OK or a negative gpuyard_error, and may be called from any thread. In a forked child, everything
 * inherited answers GPUYARD_ERROR_FORKED, and its words read as zeros: open, not queued, not active.
 */
#ifndef GPUYARD_GATE_H
#define GPUYARD_GATE_H

#include "node.h"

/* The library shows its own functions to others, and nothing of the ground that it stands on. */
#define GPUYARD_GATE_API __attribute__((visibility("default")))

#define GPUYARD_GATE_LEVELS 64
#define GPUYARD_GATE_UNGATED (-1)       /* the level of a client that neither waits nor makes others wait */
#define GPUYARD_GATE_MOST_GPUS 64       /* that one group can use */
#define GPUYARD_GATE_KEY_BYTES 48       /* of a GPU's identity, its zero byte included */
#define GPUYARD_GATE_LOOK_NS 20000000   /* how long the dead, or a dead controller's words, can hold anybody up */

/* How a client launches. */
struct gpuyard_gate_terms {
    int64_t level;       /* 0 to 63, or GPUYARD_GATE_UNGATED */
    uint64_t sync_every; /* launches after which the process waits until all its streams are empty; 0: never */
    uint64_t window;     /* launches in a group; a group waits until at most one earlier is queued; 0: no groups */
    uint64_t hold_ns;    /* its level stays active so long after each of its jobs, also after one whose end it marks */
};

/* What a process brings along when it connects. */
struct gpuyard_gate_request {
    struct gpuyard_gate_terms terms; /* its own, in force unless a controller decides otherwise */
    double share;                    /* its weight among those who want the GPU, above 0 and at most 1 */
    double slo_s;                    /* within which its jobs are to be done; 0: whenever */
    uint64_t memory_limit;           /* most bytes that it may allocate; UINT64_MAX for all there are */
    uint64_t hold_ns;                /* its job goes on if it launches again so soon after it has seen that all is done */
};

/* What GPUYARD_GATE and GPUYARD_GATE_* say: the group, NULL for none, and what to bring along. Returns what is wrong, or NULL. */
GPUYARD_GATE_API const char *gpuyard_gate_read_environment(const char **group, struct gpuyard_gate_request *request);

struct gpuyard_gate;
struct gpuyard_gate_client;

/* Says in a few words what an error means. */
GPUYARD_GATE_API const char *gpuyard_gate_error_text(int error);

/* Joins the group of this name, or makes it if no process uses it. Names have letters, digits, '.', '_' and '-'. */
GPUYARD_GATE_API int gpuyard_gate_open(const char *group, struct gpuyard_gate **gate);

/* Joins it only if it is in use, and does not keep it alive: for monitors. */
GPUYARD_GATE_API int gpuyard_gate_watch(const char *group, struct gpuyard_gate **gate);

/* Leaves the group, with all clients; the last to go removes it. `destroy` frees gate and clients as well. */
GPUYARD_GATE_API int gpuyard_gate_close(struct gpuyard_gate *gate);
GPUYARD_GATE_API void gpuyard_gate_destroy(struct gpuyard_gate *gate);
GPUYARD_GATE_API int gpuyard_gate_state(const struct gpuyard_gate *gate);

/* Where a group's file is. */
GPUYARD_GATE_API int gpuyard_gate_path(const char *group, char path[GPUYARD_PATH_BYTES]);

/* Becomes a client of a GPU. Its key is the same text in all processes that can see it: by habit "GPU-" and its UUID. */
GPUYARD_GATE_API int gpuyard_gate_connect(struct gpuyard_gate *gate, const char *key, const struct gpuyard_gate_request *request,
                                     struct gpuyard_gate_client **client);

/* Leaves the GPU: whatever it counted and held is gone. */
GPUYARD_GATE_API int gpuyard_gate_disconnect(struct gpuyard_gate_client *client);

/* The numbers that a launch looks at. They stay readable until the gate is destroyed. */
struct gpuyard_gate_words {
    const volatile uint32_t *stop;       /* not 0: wait, unless `arrive` knows better */
    const volatile uint64_t *sync_every; /* terms in force */
    const volatile uint64_t *window;
    volatile uint64_t *queued;   /* launches since everything was known to be done */
    volatile uint64_t *launches; /* since it connected */
};

GPUYARD_GATE_API void gpuyard_gate_words(struct gpuyard_gate_client *client, struct gpuyard_gate_words *words);

/* A launch, as each door to the gate does it:
 *
 *     while (!gpuyard_gate_is_open(client) && gpuyard_gate_arrive(client) == 1) {
 *         drain all streams; gpuyard_gate_drained(…);
 *         gpuyard_gate_wait(client);
 *     }
 *     launch;
 *     if (gpuyard_gate_launched(client)) { drain all streams; gpuyard_gate_drained(…); }
 */

/* Whether a launch may go without another look: nothing stops it, and its job has begun. */
GPUYARD_GATE_API bool gpuyard_gate_is_open(const struct gpuyard_gate_client *client);
GPUYARD_GATE_API bool gpuyard_gate_is_stopped(const struct gpuyard_gate_client *client);

/* A job begins, unless one is under way: from now on lower levels wait. 1 if it has to wait itself. */
GPUYARD_GATE_API int gpuyard_gate_arrive(struct gpuyard_gate_client *client);

/* Waits until the gate is open; a job that has launched something is preempted by that. */
GPUYARD_GATE_API int gpuyard_gate_wait(struct gpuyard_gate_client *client);

/* Counts a launch that was made; true if the cap says that it is time to drain. */
GPUYARD_GATE_API bool gpuyard_gate_launched(struct gpuyard_gate_client *client);

/* The rest of it for those who count by themselves, with their new `*queued`: the first of a queue, or the cap reached. */
GPUYARD_GATE_API bool gpuyard_gate_counted(struct gpuyard_gate_client *client, uint64_t queued);

/* What is queued now: to be given back to `drained` once a synchronisation that began after it has returned. */
GPUYARD_GATE_API uint64_t gpuyard_gate_queued(const struct gpuyard_gate_client *client);

/* Why streams were drained. */
enum gpuyard_gate_drain {
    GPUYARD_GATE_PROGRAM = 0,  /* the program synchronised: with nothing left in the queue, its job is done but for a hold */
    GPUYARD_GATE_CAP = 1,      /* the cap said so */
    GPUYARD_GATE_PREEMPTED = 2 /* a higher level became active */
};

/* So many of the launches that were queued are done; the wait for them took `wait_ns`. */
GPUYARD_GATE_API int gpuyard_gate_drained(struct gpuyard_gate_client *client, uint64_t launches, enum gpuyard_gate_drain why,
                                     uint64_t wait_ns);

/* Says where a job begins and ends, for programs that know; between them no synchronisation ends it, and after the end
 * nothing is held but by its terms: the next job that is marked finds the gate as it left it. They nest. */
GPUYARD_GATE_API int gpuyard_gate_begin_job(struct gpuyard_gate_client *client);
GPUYARD_GATE_API int gpuyard_gate_end_job(struct gpuyard_gate_client *client);

/* Takes memory from the client's limit, or GPUYARD_ERROR_OUT_OF_MEMORY; gives it back; tells limit and use. */
GPUYARD_GATE_API int gpuyard_gate_reserve(struct gpuyard_gate_client *client, uint64_t bytes);
GPUYARD_GATE_API int gpuyard_gate_release(struct gpuyard_gate_client *client, uint64_t bytes);
GPUYARD_GATE_API int gpuyard_gate_memory(const struct gpuyard_gate_client *client, uint64_t *limit, uint64_t *used);

/* One client as monitors and controllers see it. Times are nanoseconds of CLOCK_MONOTONIC. */
struct gpuyard_gate_client_view {
    uint64_t slot, ticket; /* which client it is: a ticket is given once */
    uint64_t pid;
    struct gpuyard_gate_request request;
    struct gpuyard_gate_terms terms; /* in force */
    uint64_t stopped, active, waiting;
    uint64_t launches, queued, longest_queue;
    uint64_t syncs, preemptions, waited_ns;       /* of the cap; of jobs under way; at closed gates */
    uint64_t drains, drained_launches, drain_ns;  /* by the gate, and what was waited for them */
    uint64_t busy_ns, done_launches;              /* GPU time, shared evenly by those who had any; launches */
    uint64_t jobs_begun, jobs_done, job_since_ns, last_job_ns;
    uint64_t job_launches; /* of the present job, or the last */
    uint64_t resumptions, resumed_launches; /* how often that job went on within its hold; its launches before the last time */
    uint64_t memory_used;
};

struct gpuyard_gate_gpu_view {
    char key[GPUYARD_GATE_KEY_BYTES];
    uint64_t now_ns;
    uint64_t controlled; /* whether a controller is alive */
    uint64_t client_count;
    struct gpuyard_gate_client_view clients[GPUYARD_MOST_CLIENTS];
};

/* How many GPUs the group has used; one of them, looked at: the dead are disconnected. */
GPUYARD_GATE_API int gpuyard_gate_gpu_count(const struct gpuyard_gate *gate);
GPUYARD_GATE_API int gpuyard_gate_look(struct gpuyard_gate *gate, unsigned int gpu, struct gpuyard_gate_gpu_view *view);

/* Becomes the group's controller, which is one process at a time. Its words count only while it lives. */
GPUYARD_GATE_API int gpuyard_gate_control(struct gpuyard_gate *gate);

/* What a controller decides for one client, named as in a view; for one that has gone, nothing happens. */
struct gpuyard_gate_decision {
    uint64_t slot, ticket;
    struct gpuyard_gate_terms terms;
};

GPUYARD_GATE_API int gpuyard_gate_decide(struct gpuyard_gate *gate, unsigned int gpu,
                                    const struct gpuyard_gate_decision *decisions, unsigned int count);

/* How often clients came or went so far; the second waits until it is not `seen` any more, or so long. */
GPUYARD_GATE_API uint32_t gpuyard_gate_changes(const struct gpuyard_gate *gate);
GPUYARD_GATE_API int gpuyard_gate_await_change(struct gpuyard_gate *gate, uint32_t seen, uint64_t most_ns);

#endif

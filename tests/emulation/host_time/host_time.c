/* A machine whose time passes only where a program sleeps: loaded ahead of libc, it stands in for its clocks.
 *
 * A program then takes as long as it says it sleeps, however busy the real machine is. Waiting for other processes takes
 * no time at all, so each such program has to be alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define START (1000 * SECOND)
#define YIELD 1000 /* ns that looking at the clock again takes */

static _Atomic long long now = START;

static long long nanoseconds(const struct timespec *span) { return span->tv_sec * SECOND + span->tv_nsec; }

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, clock, time);
    long long at = atomic_load(&now);
    *time = (struct timespec){at / SECOND, at % SECOND};
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    (void)left;
    if (clock != CLOCK_MONOTONIC && (flags & TIMER_ABSTIME)) return EINVAL;
    long long until = nanoseconds(wanted), at = atomic_load(&now);
    if (!(flags & TIMER_ABSTIME)) until += at;
    while (at < until && !atomic_compare_exchange_weak(&now, &at, until)) continue;
    return 0;
}

int nanosleep(const struct timespec *wanted, struct timespec *left) {
    return clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left);
}

int sched_yield(void) {
    atomic_fetch_add(&now, YIELD);
    return 0;
}

/* Futexes between processes: the word's place in the file is what counts, not where each has mapped it. */
#define _GNU_SOURCE
#include "futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void futex_wait(const _Atomic uint32_t *word, uint32_t seen, uint64_t most_ns) {
    const struct timespec most = {(time_t)(most_ns / 1000000000), (long)(most_ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, NULL, 0);
}

void futex_wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

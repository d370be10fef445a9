/* Waiting for a word in memory that processes share. */
#ifndef GPUYARD_GATE_FUTEX_H
#define GPUYARD_GATE_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns once the word is not `seen`, somebody woke it, a signal came, or so long has passed: look again. */
void futex_wait(const _Atomic uint32_t *word, uint32_t seen, uint64_t most_ns);

void futex_wake_all(_Atomic uint32_t *word);

#endif

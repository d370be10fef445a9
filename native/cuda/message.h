/* What the library says to people: on stderr, one line each. */
#ifndef GPUYARD_CUDA_MESSAGE_H
#define GPUYARD_CUDA_MESSAGE_H

/* Says what is wrong and cannot be told by an error code. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* The same, but only once for each text, and only if GPUYARD_TRACE is set. */
__attribute__((format(printf, 1, 2))) void trace_once(const char *format, ...);

/* The same as trace_once, whether GPUYARD_TRACE is set or not. */
__attribute__((format(printf, 1, 2))) void complain_once(const char *format, ...);

#endif

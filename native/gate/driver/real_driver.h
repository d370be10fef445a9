/* The driver behind us: its functions, found once when the first is needed. */
#ifndef GPUYARD_GATE_REAL_DRIVER_H
#define GPUYARD_GATE_REAL_DRIVER_H

#include <stdbool.h>

#include "hooked.h"

/* The address of a driver's function; of one that it does not have, a function that says so. */
void *real_function(enum driver_number number);

/* In a forked child: whoever was looking for the driver is a thread of the parent. */
void driver_forget(void);

/* The function of ours that programs get for an address that the driver gave; the address itself if there is none. */
void *replacement(void *address);

/* The same by name, for an address that a look-up came back with: the driver's, or ours already; NULL without a driver. */
void *replacement_of(const char *name, void *address);

/* The system's own dlsym and the like: programs have ours. */
void *(*system_dlsym(void))(void *handle, const char *name);
void *(*system_dlvsym(void))(void *handle, const char *name, const char *version);
void *(*system_dlopen(void))(const char *file, int mode);
void *(*system_dlmopen(void))(long space, const char *file, int mode);

/* In the body of our function `name`: the driver's. */
#define REAL(name) ((__typeof__(&name))real_function(NUMBER_##name))

#define DRIVER_CALL(name, types, ...) (((CUresult(*) types)real_function(NUMBER_##name))(__VA_ARGS__))

#endif

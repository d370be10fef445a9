/* Which functions are hooked is one table; where they really are is looked up once the driver is loaded. */
#define _GNU_SOURCE
#include "real_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "loaded_symbols.h"

/* Here only their addresses matter. */
#define DECLARE(name) void name(void);
HOOKED(DECLARE)

#define NAME(name) #name,
static const char *const names[DRIVER_COUNT] = {HOOKED(NAME) CALLED(NAME)};
#define ADDRESS(name) (void *)(uintptr_t)&name,
static void *const ours[HOOKED_COUNT] = {HOOKED(ADDRESS)};
static void *real[DRIVER_COUNT];
static _Atomic bool is_loaded;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

#define SYSTEM(name, ...)                                                         \
    typedef void *name##_function(__VA_ARGS__);                                   \
    name##_function *system_##name(void) {                                        \
        static _Atomic(name##_function *) found;                                  \
        if (found == NULL) found = (name##_function *)next_loaded(#name);         \
        return found;                                                             \
    }

SYSTEM(dlsym, void *, const char *)
SYSTEM(dlvsym, void *, const char *, const char *)
SYSTEM(dlopen, const char *, int)
SYSTEM(dlmopen, long, const char *, int)

static CUresult absent(void) { return CUDA_ERROR_NOT_FOUND; }

static void *driver_handle(bool load) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver == NULL && load ? dlopen("libcuda.so.1", RTLD_NOW) : driver;
}

static bool load(bool even_if_nobody_has) {
    if (is_loaded) return true;
    pthread_mutex_lock(&loading);
    void *driver = is_loaded ? NULL : driver_handle(even_if_nobody_has);
    for (int i = 0; driver != NULL && i < DRIVER_COUNT; i++) real[i] = system_dlsym()(driver, names[i]);
    if (driver != NULL) is_loaded = true;
    pthread_mutex_unlock(&loading);
    return is_loaded;
}

void driver_forget(void) { pthread_mutex_init(&loading, NULL); }

void *real_function(enum driver_number number) {
    bool found = (atomic_load_explicit(&is_loaded, memory_order_acquire) || load(true)) && real[number] != NULL;
    return found ? real[number] : (void *)(uintptr_t)&absent;
}

void *replacement(void *address) {
    if (address == NULL || !load(false)) return address;
    for (int i = 0; i < HOOKED_COUNT; i++)
        if (real[i] == address) return ours[i];
    return address;
}

void *replacement_of(const char *name, void *address) {
    for (int i = 0; i < HOOKED_COUNT; i++) {
        if (strcmp(names[i], name) != 0) continue;
        bool known = address != NULL && load(false) && real[i] != NULL;
        if (address == ours[i]) return known ? address : NULL;
        return known && address == real[i] ? ours[i] : address;
    }
    return address;
}

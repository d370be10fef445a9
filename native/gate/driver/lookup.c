/* Every way to find a function of the driver leads to ours: dlsym, dlvsym, and the driver's own look-up. Programs that are
 * linked with the driver find ours first, as we are loaded before it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "real_driver.h"

static bool may_be_hooked(const char *name) {
    return name != NULL && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

/* Who asks for the next one means from where it stands itself: the call must look like the caller's own, which a jump at the
 * end of a function does and a call inside it does not. */
EXPORT void *dlsym(void *restrict handle, const char *restrict name) {
    if (handle == RTLD_NEXT || !may_be_hooked(name)) return system_dlsym()(handle, name);
    return replacement_of(name, system_dlsym()(handle, name));
}

EXPORT void *dlvsym(void *restrict handle, const char *restrict name, const char *restrict version) {
    if (handle == RTLD_NEXT || !may_be_hooked(name)) return system_dlvsym()(handle, name, version);
    return replacement_of(name, system_dlvsym()(handle, name, version));
}

/* An object loaded with RTLD_DEEPBIND finds libc's dlsym and the driver's functions before ours. So it is loaded without. The
 * path that an object is searched on is its caller's: these jump, too. */
static int without_deep_binding(int mode) {
    const char *group = getenv("GPUYARD_GATE");
    return group == NULL || *group == '\0' ? mode : mode & ~RTLD_DEEPBIND;
}

EXPORT void *dlopen(const char *file, int mode) { return system_dlopen()(file, without_deep_binding(mode)); }

EXPORT void *dlmopen(Lmid_t space, const char *file, int mode) {
    return system_dlmopen()(space, file, without_deep_binding(mode));
}

/* Versions need no table: whatever the driver hands out, if it is a function that we hook, it is recognised. */
EXPORT CUresult cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, void *status) {
    CUresult result = REAL(cuGetProcAddress_v2)(name, address, version, flags, status);
    if (result == CUDA_SUCCESS && address != NULL) *address = replacement(*address);
    return result;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **address, int version, uint64_t flags) {
    CUresult result = REAL(cuGetProcAddress)(name, address, version, flags);
    if (result == CUDA_SUCCESS && address != NULL) *address = replacement(*address);
    return result;
}

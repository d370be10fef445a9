#include "module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "kernel_time.h"
#include "limits_of_gpus.h"
#include "memory.h"
#include "message.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct module *loaded; /* into any context */

void tell_in_log(const struct load_options *options, const char *message) {
    char *buffer = NULL;
    size_t room = 0;
    for (unsigned int i = 0; options != NULL && i < options->count; i++) {
        if (options->options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = options->values[i];
        if (options->options[i] == CU_JIT_ERROR_LOG_SIZE) room = (size_t)(uintptr_t)options->values[i];
    }
    if (buffer != NULL && room > 0) snprintf(buffer, room, "%s", message);
    trace_once("%s", message);
}

static struct function *add_function(struct module *module, const char *name, size_t length,
                                     const struct ptx_function *code) {
    struct function *function = handle_new(HANDLE_FUNCTION, sizeof *function);
    char *own = strndup(name, length);
    if (function == NULL || own == NULL) return NULL;
    function->next = module->functions;
    module->functions = function;
    function->module = module;
    function->library = NULL;
    function->name = own;
    function->code = code;
    function->seconds = kernel_seconds_by_name(own);
    function->prepared = (struct prepared_launch){.block = {1, 1, 1}};
    memset(function->attributes, 0, sizeof function->attributes);
    int limit = code == NULL || ptx_max_threads(code) == 0 ? THREADS_PER_BLOCK : (int)ptx_max_threads(code);
    function->attributes[CU_FUNC_MAX_THREADS_PER_BLOCK] = limit;
    function->attributes[CU_FUNC_REGISTERS] = 32; /* of the hardware; PTX says nothing about them */
    function->attributes[CU_FUNC_PTX_VERSION] = function->attributes[CU_FUNC_BINARY_VERSION] = 80;
    function->attributes[CU_FUNC_MAX_DYNAMIC_SHARED] = SHARED_PER_BLOCK;
    function->attributes[CU_FUNC_CARVEOUT] = -1;
    if (code == NULL) return function;
    function->attributes[CU_FUNC_SHARED_BYTES] = (int)ptx_shared_bytes(module->ptx);
    function->attributes[CU_FUNC_CONST_BYTES] = (int)ptx_constant_bytes(module->ptx);
    function->attributes[CU_FUNC_LOCAL_BYTES] = (int)ptx_local_bytes(code);
    return function;
}

/* Gives each variable its place in the context's memory. */
static CUresult place_variables(struct module *module, const struct load_options *options) {
    char message[PTX_MESSAGE_BYTES];
    for (size_t i = 0; i < ptx_variable_count(module->ptx); i++) {
        struct ptx_variable *variable = ptx_variable(module->ptx, i);
        CUdeviceptr address = 0;
        if (variable->bytes == 0) continue;
        CUresult result = memory_take(module->context, variable->bytes, RANGE_DEVICE, NULL, &address);
        if (result != CUDA_SUCCESS) return result;
        variable->address = (uintptr_t)address;
    }
    if (ptx_finish(module->ptx, message)) return CUDA_SUCCESS;
    tell_in_log(options, message);
    return CUDA_ERROR_INVALID_PTX;
}

static struct module *new_module(struct context *context) {
    struct module *module = handle_new(HANDLE_MODULE, sizeof *module);
    if (module == NULL) return NULL;
    module->context = context;
    module->ptx = NULL;
    module->functions = NULL;
    pthread_mutex_lock(&lock);
    module->next = loaded;
    loaded = module;
    pthread_mutex_unlock(&lock);
    return module;
}

void module_unload(struct module *module) {
    pthread_mutex_lock(&lock);
    for (struct module **link = &loaded; *link != NULL; link = &(*link)->next) {
        if (*link != module) continue;
        *link = module->next;
        break;
    }
    pthread_mutex_unlock(&lock);
    while (module->functions != NULL) {
        struct function *function = module->functions;
        module->functions = function->next;
        free((char *)function->name);
        free(function->prepared.arguments);
        handle_drop(function);
    }
    for (size_t i = 0; module->ptx != NULL && module->context != NULL && i < ptx_variable_count(module->ptx); i++)
        memory_give_back((CUdeviceptr)ptx_variable(module->ptx, i)->address);
    if (module->ptx != NULL) ptx_free(module->ptx);
    handle_drop(module);
}

void modules_of_context_end(struct context *context) {
    for (;;) {
        pthread_mutex_lock(&lock);
        struct module *module = loaded;
        while (module != NULL && module->context != context) module = module->next;
        pthread_mutex_unlock(&lock);
        if (module == NULL) return;
        module_unload(module);
    }
}

CUresult module_load_texts(struct context *context, const char *const *texts, const size_t *bytes, size_t count,
                           const struct load_options *options, struct module **made) {
    char message[PTX_MESSAGE_BYTES];
    struct module *module = new_module(context);
    if (module == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    module->ptx = ptx_new();
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        if (ptx_add(module->ptx, texts[i], bytes[i], message)) continue;
        tell_in_log(options, message);
        result = CUDA_ERROR_INVALID_PTX;
    }
    if (result == CUDA_SUCCESS && context != NULL) result = place_variables(module, options);
    for (size_t i = 0; result == CUDA_SUCCESS && i < ptx_kernel_count(module->ptx); i++) {
        const struct ptx_function *kernel = ptx_kernel(module->ptx, i);
        if (add_function(module, ptx_name(kernel), strlen(ptx_name(kernel)), kernel) == NULL)
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result == CUDA_SUCCESS) *made = module;
    else module_unload(module);
    return result;
}

/* Machine code is of no use here, but its kernels have names, and so durations. */
static CUresult load_machine_code(struct context *context, const struct image *image, struct module **made) {
    struct module *module = new_module(context);
    if (module == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t length;
    const char *name;
    for (size_t i = 0; (name = image_kernel(image, i, &length)) != NULL; i++)
        if (add_function(module, name, length, NULL) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (context != NULL)
        complain_once(
            "a module has %s: its kernels take their time, but compute nothing; see docs/cuda.md",
            image->has_compressed_ptx ? "machine code and PTX that is compressed" : "machine code and no PTX");
    *made = module;
    return CUDA_SUCCESS;
}

CUresult module_load(struct context *context, const void *data, size_t bytes, const struct load_options *options,
                     struct module **module) {
    struct image image;
    if (!image_read(data, bytes, &image)) return CUDA_ERROR_INVALID_IMAGE;
    if (image.ptx != NULL) return module_load_texts(context, &image.ptx, &image.ptx_bytes, 1, options, module);
    if (image.machine_code != NULL) return load_machine_code(context, &image, module);
    complain_once("a module has only PTX that is compressed; build it with nvcc --no-compress");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

struct function *module_find(const struct module *module, const char *name) {
    struct function *function = module->functions;
    while (function != NULL && strcmp(function->name, name) != 0) function = function->next;
    return function;
}

CUresult module_variable_address(const struct module *module, const char *name, CUdeviceptr *address, size_t *bytes) {
    for (size_t i = 0; module->ptx != NULL && i < ptx_variable_count(module->ptx); i++) {
        const struct ptx_variable *variable = ptx_variable(module->ptx, i);
        if (strcmp(variable->name, name) != 0 || variable->address == 0) continue;
        if (address != NULL) *address = (CUdeviceptr)variable->address;
        if (bytes != NULL) *bytes = variable->bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, unsigned int *options,
                                   void **values) {
    CURRENT(context);
    if (module == NULL || image == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct load_options given = {count, options, values};
    return module_load(context, image, 0, &given, module);
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }

EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path) {
    CURRENT(context);
    if (module == NULL || path == NULL) return CUDA_ERROR_INVALID_VALUE;
    size_t bytes;
    char *data = file_content(path, &bytes);
    if (data == NULL) return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = module_load(context, data, bytes, NULL, module);
    free(data); /* a module keeps nothing of its image */
    return result;
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
    if (!handle_is(module, HANDLE_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    if (module->context != NULL) context_synchronize(module->context);
    module_unload(module);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    if (function == NULL || name == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(module, HANDLE_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    *function = module_find(module, name);
    return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    if (name == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(module, HANDLE_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    return module_variable_address(module, name, address, bytes);
}

EXPORT CUresult cuModuleGetLoadingMode(unsigned int *mode) {
    if (mode == NULL) return CUDA_ERROR_INVALID_VALUE;
    *mode = 1; /* everything is loaded at once */
    return CUDA_SUCCESS;
}

unsigned int module_function_count(const struct module *module) {
    unsigned int count = 0;
    for (const struct function *each = module->functions; each != NULL; each = each->next) count++;
    return count;
}

EXPORT CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module) {
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(module, HANDLE_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    *count = module_function_count(module);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int room, CUmodule module) {
    if (functions == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(module, HANDLE_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    struct function *each = module->functions;
    for (unsigned int i = 0; i < room && each != NULL; i++, each = each->next) functions[i] = each;
    return CUDA_SUCCESS;
}

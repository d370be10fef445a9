/* Libraries: modules that are loaded into each context when it first needs them. */
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "module.h"

struct library {
    struct handle handle;
    char *texts; /* what it was loaded from: PTX, or machine code as it stood there */
    size_t bytes;
    struct module *seen; /* read, but in no context: its functions are the library's kernels */
    struct loaded_library {
        struct context *context;
        struct module *module;
        struct loaded_library *next;
    } *loaded;
    pthread_mutex_t lock;
};

/* Keeps the part of an image that a context will load, as the program may free it. */
static CUresult keep_image(struct library *library, const void *data, size_t bytes) {
    struct image image;
    if (!image_read(data, bytes, &image)) return CUDA_ERROR_INVALID_IMAGE;
    const void *part = image.ptx != NULL ? (const void *)image.ptx : image.machine_code;
    size_t length = image.ptx != NULL ? image.ptx_bytes : image.machine_code_bytes;
    if (part == NULL) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (length == 0) length = image_bytes(&image);
    library->texts = malloc(length + 1);
    if (library->texts == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(library->texts, part, length);
    library->texts[length] = '\0';
    library->bytes = length;
    return CUDA_SUCCESS;
}

static CUresult load(CUlibrary *made, const void *data, size_t bytes, const struct load_options *options) {
    struct library *library = handle_new(HANDLE_LIBRARY, sizeof *library);
    if (library == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    library->texts = NULL;
    library->loaded = NULL;
    pthread_mutex_init(&library->lock, NULL);
    CUresult result = keep_image(library, data, bytes);
    if (result == CUDA_SUCCESS) result = module_load(NULL, library->texts, library->bytes, options, &library->seen);
    if (result == CUDA_SUCCESS) {
        for (struct function *each = library->seen->functions; each != NULL; each = each->next) each->library = library;
        *made = library;
        return CUDA_SUCCESS;
    }
    free(library->texts);
    handle_drop(library);
    return result;
}

/* The library's module in the current context. */
static CUresult module_here(struct library *library, struct module **module) {
    CURRENT(context);
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&library->lock);
    struct loaded_library *each = library->loaded;
    while (each != NULL &&
           !(each->context == context && handle_is(each->module, HANDLE_MODULE) && each->module->context == context))
        each = each->next;
    if (each == NULL) {
        each = malloc(sizeof *each);
        result = each == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                              : module_load(context, library->texts, library->bytes, NULL, &each->module);
        if (result == CUDA_SUCCESS) {
            each->context = context;
            each->next = library->loaded;
            library->loaded = each;
        } else {
            free(each);
        }
    }
    if (result == CUDA_SUCCESS) *module = each->module;
    pthread_mutex_unlock(&library->lock);
    return result;
}

CUresult find_function(CUfunction handle, struct function **function) {
    if (!handle_is(handle, HANDLE_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    *function = handle;
    if (handle->library == NULL) return CUDA_SUCCESS;
    struct module *module;
    CUresult result = module_here(handle->library, &module);
    if (result != CUDA_SUCCESS) return result;
    *function = module_find(module, handle->name);
    memcpy((*function)->attributes, handle->attributes, sizeof handle->attributes); /* set for all contexts alike */
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, unsigned int *options, void **values,
                                  unsigned int count, unsigned int *library_options, void **library_values,
                                  unsigned int library_count) {
    (void)library_options, (void)library_values,
        (void)library_count; /* where its data may come from: it is always copied */
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (library == NULL || code == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct load_options given = {count, options, values};
    return load(library, code, 0, &given);
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, unsigned int *options, void **values,
                                      unsigned int count, unsigned int *library_options, void **library_values,
                                      unsigned int library_count) {
    (void)library_options, (void)library_values, (void)library_count;
    if (machine_state() != CUDA_SUCCESS) return machine_state();
    if (library == NULL || path == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct load_options given = {count, options, values};
    size_t bytes;
    char *data = file_content(path, &bytes);
    if (data == NULL) return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = load(library, data, bytes, &given);
    free(data);
    return result;
}

EXPORT CUresult cuLibraryUnload(CUlibrary library) {
    if (!handle_is(library, HANDLE_LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    while (library->loaded != NULL) {
        struct loaded_library *each = library->loaded;
        library->loaded = each->next;
        if (handle_is(each->module, HANDLE_MODULE) && each->module->context == each->context)
            module_unload(each->module);
        free(each);
    }
    module_unload(library->seen);
    free(library->texts);
    handle_drop(library);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    if (kernel == NULL || name == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(library, HANDLE_LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    *kernel = module_find(library->seen, name);
    return *kernel != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library) {
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(library, HANDLE_LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    *count = module_function_count(library->seen);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int room, CUlibrary library) {
    if (kernels == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(library, HANDLE_LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    struct function *each = library->seen->functions;
    for (unsigned int i = 0; i < room && each != NULL; i++, each = each->next) kernels[i] = each;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    if (module == NULL) return CUDA_ERROR_INVALID_VALUE;
    return handle_is(library, HANDLE_LIBRARY) ? module_here(library, module) : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    struct module *module;
    if (name == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(library, HANDLE_LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = module_here(library, &module);
    return result == CUDA_SUCCESS ? module_variable_address(module, name, address, bytes) : result;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    return function == NULL ? CUDA_ERROR_INVALID_VALUE : find_function(kernel, function);
}

EXPORT CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
    if (library == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is(kernel, HANDLE_FUNCTION) || kernel->library == NULL) return CUDA_ERROR_INVALID_HANDLE;
    *library = kernel->library;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device) {
    (void)device;
    if (!handle_is(kernel, HANDLE_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute < CU_FUNC_MAX_DYNAMIC_SHARED || attribute >= CU_FUNC_ATTRIBUTE_COUNT) return CUDA_ERROR_INVALID_VALUE;
    kernel->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

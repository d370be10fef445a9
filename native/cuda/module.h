/* Modules: kernels and variables, loaded into a context. */
#ifndef GPUYARD_CUDA_MODULE_H
#define GPUYARD_CUDA_MODULE_H

#include "context.h"
#include "ptx/ptx.h"

/* What old programs set on a kernel before they launch it. */
struct prepared_launch {
    unsigned int block[3], shared_bytes;
    unsigned char *arguments; /* NULL: none were set */
    size_t bytes;
};

struct function {
    struct handle handle;
    struct function *next;
    struct module *module;
    struct library *library; /* of a kernel that stands for one in each context; else NULL */
    const char *name;
    const struct ptx_function *code; /* NULL: only machine code is there, which is timed and not run */
    int attributes[CU_FUNC_ATTRIBUTE_COUNT];
    double seconds; /* by GPUYARD_KERNEL_TIMES; not a number if it depends on the launch */
    struct prepared_launch prepared;
};

struct module {
    struct handle handle;
    struct module *next;     /* of the same context */
    struct context *context; /* NULL: only read, to see what is in it */
    struct ptx_module *ptx;
    struct function *functions;
};

/* What a program may say about the loading of a module, and where it wants to read what went wrong. */
struct load_options {
    unsigned int count;
    const unsigned int *options;
    void **values;
};

/* Loads texts, or an image. Without a context a module is only read. */
CUresult module_load(struct context *context, const void *image, size_t bytes, const struct load_options *options,
                     struct module **module);
CUresult module_load_texts(struct context *context, const char *const *texts, const size_t *bytes, size_t count,
                           const struct load_options *options, struct module **module);
void module_unload(struct module *module);
void modules_of_context_end(struct context *context);

unsigned int module_function_count(const struct module *module);
struct function *module_find(const struct module *module, const char *name);
CUresult module_variable_address(const struct module *module, const char *name, CUdeviceptr *address, size_t *bytes);

/* The function in the current context that a handle means. */
CUresult find_function(CUfunction handle, struct function **function);

/* Every launch of a kernel goes through this function of the API. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **parameters, void **extra);

size_t function_argument_bytes(const struct function *function);

/* Writes a line into the buffer that the options name for errors. */
void tell_in_log(const struct load_options *options, const char *message);

#endif

/* PTX as programs load it: read once, then executed on the host for every launch. */
#ifndef GPUYARD_PTX_H
#define GPUYARD_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_MESSAGE_BYTES 256

struct ptx_module;
struct ptx_function;

/* A module is made of one text or, linked, of several. A failure leaves one line in `message`. */
struct ptx_module *ptx_new(void);
bool ptx_add(struct ptx_module *module, const char *text, size_t bytes, char message[PTX_MESSAGE_BYTES]);
void ptx_free(struct ptx_module *module);

/* Variables of a module in global or constant memory, which get their place from outside. */
struct ptx_variable {
    const char *name;
    size_t bytes, alignment;
    bool is_constant;
    uintptr_t address; /* where it was placed */
};

size_t ptx_variable_count(const struct ptx_module *module);
struct ptx_variable *ptx_variable(struct ptx_module *module, size_t index);

/* Once all variables have their place: writes their first values, and looks that nothing is missing. */
bool ptx_finish(struct ptx_module *module, char message[PTX_MESSAGE_BYTES]);

/* What every kernel of the module has, whichever of it it uses. */
size_t ptx_shared_bytes(const struct ptx_module *module);
size_t ptx_constant_bytes(const struct ptx_module *module);

/* Kernels. */
struct ptx_parameter {
    size_t offset, bytes;
};

size_t ptx_kernel_count(const struct ptx_module *module);
const struct ptx_function *ptx_kernel(const struct ptx_module *module, size_t index);
const char *ptx_name(const struct ptx_function *kernel);
size_t ptx_parameter_count(const struct ptx_function *kernel);
struct ptx_parameter ptx_parameter(const struct ptx_function *kernel, size_t index);
size_t ptx_argument_bytes(const struct ptx_function *kernel);
size_t ptx_local_bytes(const struct ptx_function *kernel);
unsigned int ptx_register_count(const struct ptx_function *kernel);
unsigned int ptx_max_threads(const struct ptx_function *kernel); /* 0: any number */

enum ptx_result {
    PTX_DONE,
    PTX_UNSUPPORTED,
    PTX_ILLEGAL_ADDRESS,
    PTX_MISALIGNED,
    PTX_ASSERTED,
    PTX_FAILED,
    PTX_NO_MEMORY
};

struct ptx_launch {
    const struct ptx_module *module;
    const struct ptx_function *kernel;
    const unsigned int *grid, *block;
    size_t dynamic_shared_bytes;
    const unsigned char *arguments;
    uint64_t start_ns; /* what the GPU's timer shows when it begins */
    /* Finds the memory that an address belongs to: where it begins and ends. */
    bool (*find)(uintptr_t address, uintptr_t *begin, uintptr_t *end);
};

/* Executes all blocks one after the other. A failure leaves one line in `message`. `passed_ns` becomes the time that the
 * kernel saw pass: that of its longest block, as blocks begin together. */
enum ptx_result ptx_run(const struct ptx_launch *launch, uint64_t *passed_ns, char message[PTX_MESSAGE_BYTES]);

#endif

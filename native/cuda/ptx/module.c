/* A module as a whole: its functions and variables by name, and its first values. */
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "arena.h"
#include "program.h"

static const struct {
    const char *name;
    unsigned int bytes;
} TYPES[] = {
    [TYPE_PRED] = {"pred", 1},     [TYPE_B8] = {"b8", 1},   [TYPE_U8] = {"u8", 1},       [TYPE_S8] = {"s8", 1},
    [TYPE_B16] = {"b16", 2},       [TYPE_U16] = {"u16", 2}, [TYPE_S16] = {"s16", 2},     [TYPE_B32] = {"b32", 4},
    [TYPE_U32] = {"u32", 4},       [TYPE_S32] = {"s32", 4}, [TYPE_B64] = {"b64", 8},     [TYPE_U64] = {"u64", 8},
    [TYPE_S64] = {"s64", 8},       [TYPE_F16] = {"f16", 2}, [TYPE_F16X2] = {"f16x2", 4}, [TYPE_BF16] = {"bf16", 2},
    [TYPE_BF16X2] = {"bf16x2", 4}, [TYPE_F32] = {"f32", 4}, [TYPE_F64] = {"f64", 8},     [TYPE_B128] = {"b128", 16},
};

bool read_type(const char *text, size_t length, enum type *type) {
    for (size_t i = TYPE_PRED; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strlen(TYPES[i].name) != length || memcmp(TYPES[i].name, text, length) != 0) continue;
        *type = (enum type)i;
        return true;
    }
    return false;
}

unsigned int type_bytes(enum type type) { return TYPES[type].bytes; }

bool type_is_signed(enum type type) {
    return type == TYPE_S8 || type == TYPE_S16 || type == TYPE_S32 || type == TYPE_S64;
}

bool type_is_float(enum type type) { return type >= TYPE_F16 && type <= TYPE_F64; }

struct ptx_module *ptx_new(void) {
    struct arena *arena = arena_new();
    struct ptx_module *module = arena_take(arena, 1, sizeof *module);
    module->arena = arena;
    module->frame_alignment = 16;
    return module;
}

void ptx_free(struct ptx_module *module) { arena_free(module->arena); }

struct ptx_function *module_function(const struct ptx_module *module, const char *name) {
    struct ptx_function *each = module->functions;
    while (each != NULL && strcmp(each->name, name) != 0) each = each->next;
    return each;
}

struct variable *module_variable(const struct ptx_module *module, const char *name) {
    struct variable *each = module->variables;
    while (each != NULL && strcmp(each->seen.name, name) != 0) each = each->next;
    return each;
}

size_t ptx_variable_count(const struct ptx_module *module) {
    size_t count = 0;
    for (struct variable *each = module->variables; each != NULL; each = each->next) count++;
    return count;
}

struct ptx_variable *ptx_variable(struct ptx_module *module, size_t index) {
    struct variable *each = module->variables;
    while (index-- > 0) each = each->next;
    return &each->seen;
}

/* Where a name is: a variable, or a function, whose address is that of its description. */
static bool find_address(const struct ptx_module *module, const char *name, uintptr_t *address) {
    struct variable *variable = module_variable(module, name);
    if (variable != NULL) *address = variable->seen.address;
    if (variable != NULL) return !variable->is_extern;
    struct ptx_function *function = module_function(module, name);
    *address = (uintptr_t)function;
    return function != NULL;
}

static bool place_variable(const struct ptx_module *module, const struct variable *variable,
                           char message[PTX_MESSAGE_BYTES]) {
    unsigned char *memory = (unsigned char *)variable->seen.address;
    if (variable->initial != NULL) memcpy(memory, variable->initial, variable->seen.bytes);
    else memset(memory, 0, variable->seen.bytes);
    for (struct initial_symbol *symbol = variable->symbols; symbol != NULL; symbol = symbol->next) {
        uintptr_t address;
        if (!find_address(module, symbol->name, &address)) {
            snprintf(message, PTX_MESSAGE_BYTES, "PTX: '%s' is not defined anywhere", symbol->name);
            return false;
        }
        address += (uintptr_t)symbol->addend;
        memcpy(memory + symbol->offset, &address, symbol->bytes < sizeof address ? symbol->bytes : sizeof address);
    }
    return true;
}

/* Frames lie one behind the other, so each must end where the next may begin. */
static void align_frames(struct ptx_module *module) {
    module->frame_sum = 0;
    for (struct ptx_function *each = module->functions; each != NULL; each = each->next) {
        each->frame_bytes = (each->frame_bytes + module->frame_alignment - 1) & ~(module->frame_alignment - 1);
        if (!each->is_kernel) module->frame_sum += each->frame_bytes;
    }
}

bool ptx_finish(struct ptx_module *module, char message[PTX_MESSAGE_BYTES]) {
    align_frames(module);
    for (struct variable *each = module->variables; each != NULL; each = each->next)
        if (!each->is_extern && !place_variable(module, each, message)) return false;
    for (struct ptx_function *function = module->functions; function != NULL; function = function->next) {
        for (struct constant_symbol *symbol = function->symbols; symbol != NULL; symbol = symbol->next) {
            uintptr_t address;
            if (!find_address(module, symbol->name, &address)) {
                snprintf(message, PTX_MESSAGE_BYTES, "PTX line %u: '%.100s' is not defined anywhere", symbol->line,
                         symbol->name);
                return false;
            }
            for (unsigned int lane = 0; lane < LANES; lane++)
                function->constants[symbol->constant][lane] = address + (uint64_t)symbol->addend;
        }
        for (uint32_t i = 0; i < function->length; i++) {
            const struct call *call = function->code[i].call;
            if (call == NULL || call->function == NULL || call->function->is_defined ||
                call->function->builtin != BUILTIN_NONE)
                continue;
            snprintf(message, PTX_MESSAGE_BYTES, "PTX line %u: function '%.100s' is not defined anywhere",
                     function->code[i].line, call->function->name);
            return false;
        }
    }
    return true;
}

size_t ptx_shared_bytes(const struct ptx_module *module) { return module->shared_bytes; }

size_t ptx_constant_bytes(const struct ptx_module *module) {
    size_t bytes = 0;
    for (const struct variable *each = module->variables; each != NULL; each = each->next)
        if (!each->is_extern && each->seen.is_constant) bytes += each->seen.bytes;
    return bytes;
}

size_t ptx_kernel_count(const struct ptx_module *module) {
    size_t count = 0;
    for (struct ptx_function *each = module->functions; each != NULL; each = each->next)
        count += each->is_kernel && each->is_defined;
    return count;
}

const struct ptx_function *ptx_kernel(const struct ptx_module *module, size_t index) {
    struct ptx_function *each = module->functions;
    while (!(each->is_kernel && each->is_defined) || index-- > 0) each = each->next;
    return each;
}

const char *ptx_name(const struct ptx_function *kernel) { return kernel->name; }
size_t ptx_parameter_count(const struct ptx_function *kernel) { return kernel->parameter_count; }
size_t ptx_argument_bytes(const struct ptx_function *kernel) { return kernel->argument_bytes; }
size_t ptx_local_bytes(const struct ptx_function *kernel) { return kernel->frame_bytes; }
unsigned int ptx_register_count(const struct ptx_function *kernel) { return kernel->register_count; }
unsigned int ptx_max_threads(const struct ptx_function *kernel) { return kernel->max_threads; }

struct ptx_parameter ptx_parameter(const struct ptx_function *kernel, size_t index) {
    return (struct ptx_parameter){kernel->parameters[index].offset, kernel->parameters[index].bytes};
}
